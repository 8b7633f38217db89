//! Signatures and events against pinned vectors and whatever comes over the wire.

use super::*;
use proptest::prelude::*;
use serde_json::json;

const BODY: &[u8] = br#"{"id":"evt_1"}"#;
const SECRET: &[u8] = b"whsec_test";
const AT: u64 = 1_700_000_000;
// Made with Python's hmac module, so that both directions are not wrong together.
const PINNED: &str = "t=1700000000,v1=c89214b5b5da833daed6f0b8c5bb6bd58cea9022bd80ccc78230f3942d632925";

fn at(seconds: u64) -> WallMs {
    WallMs(seconds * 1000)
}

#[test]
fn the_pinned_signature_is_made_and_accepted() {
    assert_eq!(sign(SECRET, AT, BODY), PINNED);
    assert_eq!(verify(PINNED, BODY, &[SECRET], at(AT)), Ok(()));
}

#[test]
fn any_of_several_secrets_and_signatures_will_do() {
    assert_eq!(verify(PINNED, BODY, &[b"old".as_slice(), SECRET], at(AT)), Ok(()));
    let rotated = format!("t={AT},v1={},{},v0=ff", "00".repeat(32), &PINNED[PINNED.find("v1").unwrap()..]);
    assert_eq!(verify(&rotated, BODY, &[SECRET], at(AT)), Ok(()));
}

#[test]
fn forgeries_are_told_from_late_and_malformed_ones() {
    assert_eq!(verify(PINNED, b"{}", &[SECRET], at(AT)), Err(SignatureError::Forged));
    assert_eq!(verify(PINNED, BODY, &[b"other"], at(AT)), Err(SignatureError::Forged));
    assert_eq!(verify::<&[u8]>(PINNED, BODY, &[], at(AT)), Err(SignatureError::Forged));
    assert_eq!(verify(PINNED, BODY, &[SECRET], at(AT + 300)), Ok(()));
    assert_eq!(verify(PINNED, BODY, &[SECRET], at(AT + 301)), Err(SignatureError::OutsideTolerance));
    assert_eq!(verify(PINNED, BODY, &[SECRET], at(AT - 301)), Err(SignatureError::OutsideTolerance));
    for malformed in ["", "t=1", "v1=00", "t=1,t=2,v1=00", "t=x,v1=00", "t=1,v1=zz", "t=1;v1=00", "t=-1,v1=00"] {
        let found = verify(malformed, BODY, &[SECRET], at(AT));
        assert_eq!(found, Err(SignatureError::Malformed), "{malformed:?}");
    }
    assert_eq!(verify(&"x".repeat(HEADER_LEN + 1), BODY, &[SECRET], at(AT)), Err(SignatureError::TooLong));
}

fn event(kind: &str, object: &Value) -> Vec<u8> {
    json!({"id": "evt_1", "type": kind, "created": 5, "data": {"object": object}}).to_string().into_bytes()
}

#[test]
fn facts_are_read_in_minor_units_of_their_currency() {
    let payment = PaymentId(9);
    let intent = json!({"id": "pi_1", "amount": 80, "amount_received": 80, "currency": "jpy", "status": "succeeded",
        "metadata": {"payment_id": payment.to_string()}});
    let parsed = parse(&event("payment_intent.succeeded", &intent)).unwrap();
    let captured = ProviderFact::Captured {
        reference: "pi_1".into(),
        amount: Minor(80),
        currency: Currency::JPY,
        payment: Some(payment),
    };
    assert_eq!(parsed.fact, captured);
    assert_eq!(parsed.created, WallMs(5000));
    assert_eq!(fact_of_intent(&intent), Ok(captured));
    let processing = parse(&event("payment_intent.processing", &intent)).unwrap().fact;
    assert_eq!(processing, ProviderFact::Processing { reference: "pi_1".into() });
    let other = parse(&event("customer.created", &json!({}))).unwrap();
    assert_eq!(other.fact, ProviderFact::Other);
}

#[test]
fn what_is_no_event_is_refused_in_words() {
    for body in ["", "[]", "{}", r#"{"id":"e","type":"t","created":1}"#, r#"{"id":1,"type":"t"}"#] {
        assert!(parse(body.as_bytes()).is_err(), "{body}");
    }
    // What no ledger can store, in an id of the event and in one of its object.
    for body in [r#"{"id":"e\u0000","type":"t","created":1,"data":{"object":{}}}"#, r#"{"id":"e\n","type":"t"}"#] {
        assert!(parse(body.as_bytes()).is_err_and(|error| error.0.contains("its id")), "{body}");
    }
    let captured = |id: &str| json!({"id": id, "amount_received": 1, "currency": "eur"});
    assert!(parse(&event("payment_intent.succeeded", &captured("pi_1"))).is_ok());
    assert!(parse(&event("payment_intent.succeeded", &captured("pi_\u{0}1"))).is_err());
    let negative = json!({"id": "pi_1", "amount_received": -1, "currency": "eur"});
    assert!(parse(&event("payment_intent.succeeded", &negative)).is_err());
}

#[test]
fn the_fingerprint_is_of_the_content_only() {
    let plain = parse(br#"{"id":"e","type":"t","created":1,"data":{"object":{"a":1,"b":[true,null]}}}"#).unwrap();
    let again =
        parse(br#"{"pending_webhooks":3,"data":{"object":{"b":[true,null],"a":1}},"created":1,"type":"t","id":"e"}"#)
            .unwrap();
    assert_eq!(plain.fingerprint, again.fingerprint);
    let other = parse(br#"{"id":"e","type":"t","created":1,"data":{"object":{"a":2,"b":[true,null]}}}"#).unwrap();
    assert_ne!(plain.fingerprint, other.fingerprint);
}

proptest! {
    #[test]
    fn what_is_signed_verifies_and_no_flipped_byte_does(
        secret in proptest::collection::vec(any::<u8>(), 0..64),
        mut body in proptest::collection::vec(any::<u8>(), 1..256),
        flip in any::<prop::sample::Index>(),
    ) {
        let header = sign(&secret, AT, &body);
        prop_assert_eq!(verify(&header, &body, &[&secret], at(AT)), Ok(()));
        let place = flip.index(body.len());
        body[place] ^= 1;
        prop_assert_eq!(verify(&header, &body, &[&secret], at(AT)), Err(SignatureError::Forged));
    }

    #[test]
    fn nothing_sent_makes_the_parsers_panic(
        header in ".{0,200}",
        body in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let _verdict = verify(&header, &body, &[SECRET], at(AT));
        let _event = parse(&body);
    }
}
