//! What the verifier believes and what it does not.

#![allow(missing_docs)]

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::ids::EventId;
use domain::pass::{PassClaims, PassRefused};
use domain::time::WallMs;
use queue::token::{Fan, KeyError, Signer, TokenError, Verifier, generate_key_pem};
use serde_json::json;

const NOW: WallMs = WallMs(1_800_000_000_000);
const SECOND: u64 = NOW.0 / 1_000;

fn signer() -> Signer {
    Signer::from_pem(&generate_key_pem()).unwrap()
}

fn verifier(signer: &Signer) -> Verifier {
    Verifier::new(&signer.key_set(), "login", "encore").unwrap()
}

fn alice() -> Fan {
    Fan { user: "alice".parse().unwrap(), operator: false, email: None, expires: WallMs(NOW.0 + 60_000) }
}

fn claims() -> PassClaims {
    PassClaims {
        iss: "login".into(),
        aud: "encore".into(),
        sub: "alice".parse().unwrap(),
        event: EventId(7),
        jti: "p-1".parse().unwrap(),
        iat: SECOND,
        exp: SECOND + 300,
    }
}

fn checked(verifier: &Verifier, pass: &str) -> Result<PassClaims, TokenError> {
    verifier.pass(pass, EventId(7), &"alice".parse().unwrap(), NOW)
}

/// The same token with another header.
fn with_header(token: &str, header: &serde_json::Value) -> String {
    let rest = token.split_once('.').unwrap().1;
    format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header.to_string()))
}

#[test]
fn a_fan_is_believed_until_the_token_ends() {
    let signer = signer();
    let verifier = verifier(&signer);
    let token = signer.sign_fan("login", "encore", &alice());
    assert_eq!(verifier.fan(&token, NOW), Ok(alice()));
    assert!(verifier.fan(&token, WallMs(NOW.0 + 59_999)).is_ok());
    assert_eq!(verifier.fan(&token, WallMs(NOW.0 + 60_000)), Err(TokenError::Expired));
    let operator = Fan { operator: true, ..alice() };
    assert!(verifier.fan(&signer.sign_fan("login", "encore", &operator), NOW).unwrap().operator);
}

#[test]
fn a_provider_may_add_claims_and_audiences_but_not_leave_any_out() {
    let signer = signer();
    let verifier = verifier(&signer);
    let fan = |claims: serde_json::Value| verifier.fan(&signer.sign("JWT", &claims).unwrap(), NOW);
    let exp = SECOND + 5;
    assert!(fan(json!({"iss": "login", "aud": ["x", "encore"], "sub": "a", "exp": exp, "email": "a@b"})).is_ok());
    let email = |email: serde_json::Value, verified: serde_json::Value| {
        let claims = json!({"iss": "login", "aud": "encore", "sub": "a", "exp": exp, "email": email,
            "email_verified": verified});
        fan(claims).expect("an odd address costs nobody the login").email
    };
    assert_eq!(email(json!("a@example.org"), json!(true)).as_deref(), Some("a@example.org"));
    for unverified in [json!(false), json!(null), json!("true"), json!(1)] {
        assert_eq!(email(json!("a@example.org"), unverified), None);
    }
    let long = format!("{}@example.org", "a".repeat(254));
    for odd in
        [json!(7), json!("nobody"), json!("@x"), json!("x@"), json!("a@b\r\nBcc: c@d"), json!(long), json!(["a@b"])]
    {
        assert_eq!(email(odd.clone(), json!(true)), None, "{odd}");
    }
    let known = Fan { email: Some("alice@example.org".into()), ..alice() };
    assert_eq!(verifier.fan(&signer.sign_fan("login", "encore", &known), NOW), Ok(known));
    assert_eq!(fan(json!({"iss": "login", "aud": ["x"], "sub": "a", "exp": exp})), Err(TokenError::Foreign));
    let early = json!({"iss": "login", "aud": "encore", "sub": "a", "exp": SECOND + 900, "nbf": SECOND + 600});
    assert_eq!(fan(early), Err(TokenError::NotYet));
    assert_eq!(fan(json!({"iss": "other", "aud": "encore", "sub": "a", "exp": exp})), Err(TokenError::Foreign));
    for lacking in [
        json!({"aud": "encore", "sub": "a", "exp": exp}),
        json!({"iss": "login", "sub": "a", "exp": exp}),
        json!({"iss": "login", "aud": "encore", "exp": exp}),
        json!({"iss": "login", "aud": "encore", "sub": "a"}),
        json!({"iss": "login", "aud": "encore", "sub": "a", "exp": "soon"}),
        json!({"iss": "login", "aud": "encore", "sub": "a b", "exp": exp}),
        json!({"iss": "login", "aud": "encore", "sub": "", "exp": exp}),
    ] {
        assert_eq!(fan(lacking.clone()), Err(TokenError::Malformed), "{lacking}");
    }
}

#[test]
fn a_pass_is_good_for_its_fan_its_event_and_its_time() {
    let signer = signer();
    let verifier = verifier(&signer);
    let pass = signer.sign_pass(&claims());
    assert_eq!(checked(&verifier, &pass), Ok(claims()));
    assert_eq!(pass, signer.sign_pass(&claims()), "the same record gives the same pass");
    let alice = "alice".parse().unwrap();
    let refused = |why| Err(TokenError::Pass(why));
    assert_eq!(verifier.pass(&pass, EventId(8), &alice, NOW), refused(PassRefused::OtherEvent));
    assert_eq!(verifier.pass(&pass, EventId(7), &"bob".parse().unwrap(), NOW), refused(PassRefused::OtherUser));
    let later = WallMs(NOW.0 + 300_000);
    assert_eq!(verifier.pass(&pass, EventId(7), &alice, later), refused(PassRefused::Expired));
    let long = signer.sign_pass(&PassClaims { exp: SECOND + 3_600, ..claims() });
    assert_eq!(checked(&verifier, &long), refused(PassRefused::TooLong));
    let foreign = signer.sign_pass(&PassClaims { aud: "elsewhere".into(), ..claims() });
    assert_eq!(checked(&verifier, &foreign), Err(TokenError::Foreign));
}

#[test]
fn one_kind_of_token_is_never_another() {
    let signer = signer();
    let verifier = verifier(&signer);
    let login = signer.sign_fan("login", "encore", &alice());
    let pass = signer.sign_pass(&claims());
    assert_eq!(checked(&verifier, &login), Err(TokenError::WrongKind));
    assert_eq!(verifier.fan(&pass, NOW), Err(TokenError::WrongKind));
    assert_eq!(verifier.session(&pass, NOW), Err(TokenError::WrongKind));
    assert_eq!(verifier.session(&login, NOW), Err(TokenError::WrongKind));
}

#[test]
fn a_forged_pass_is_refused_however_it_is_forged() {
    let (ours, theirs) = (signer(), signer());
    let verifier = verifier(&ours);
    let pass = ours.sign_pass(&claims());
    assert_eq!(checked(&verifier, &theirs.sign_pass(&claims())), Err(TokenError::UnknownKey));
    // Their signature under our key id.
    let header: serde_json::Value =
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(pass.split('.').next().unwrap()).unwrap()).unwrap();
    let forged = with_header(&theirs.sign_pass(&claims()), &header);
    assert_eq!(checked(&verifier, &forged), Err(TokenError::Forged));
    // Other claims under our signature.
    let parts: Vec<&str> = pass.split('.').collect();
    let other = serde_json::to_string(&PassClaims { sub: "mallory".parse().unwrap(), ..claims() }).unwrap();
    let forged = format!("{}.{}.{}", parts[0], URL_SAFE_NO_PAD.encode(other), parts[2]);
    assert_eq!(checked(&verifier, &forged), Err(TokenError::Forged));
    // No signature, another algorithm, no key id, a key of its own.
    let kid = header["kid"].clone();
    for (header, why) in [
        (json!({"typ": "pass+jwt", "alg": "none", "kid": kid}), TokenError::Malformed),
        (json!({"typ": "pass+jwt", "alg": "HS256", "kid": kid}), TokenError::UnknownKey),
        (json!({"typ": "pass+jwt", "alg": "ES256", "kid": kid}), TokenError::UnknownKey),
        (json!({"typ": "pass+jwt", "alg": "EdDSA"}), TokenError::UnknownKey),
        (json!({"typ": "pass+jwt", "alg": "EdDSA", "kid": "x"}), TokenError::UnknownKey),
        (json!({"typ": "pass+jwt", "alg": "EdDSA", "kid": kid, "crit": ["exp"]}), TokenError::Malformed),
        (json!({"typ": "JWT", "alg": "EdDSA", "kid": kid}), TokenError::WrongKind),
        (json!({"alg": "EdDSA", "kid": kid}), TokenError::WrongKind),
    ] {
        assert_eq!(checked(&verifier, &with_header(&pass, &header)), Err(why), "{header}");
    }
    for garbage in ["", ".", "..", "a.b", "a.b.c", "a.b.c.d", &pass[..pass.len() - 5], &"x".repeat(10_000)] {
        assert!(checked(&verifier, garbage).is_err(), "{garbage}");
    }
}

#[test]
fn unknown_claims_in_a_pass_are_refused() {
    let signer = signer();
    let mut claims = serde_json::to_value(claims()).unwrap();
    claims["admin"] = true.into();
    let pass = signer.sign("pass+jwt", &claims).unwrap();
    assert_eq!(checked(&verifier(&signer), &pass), Err(TokenError::Malformed));
}

#[test]
fn several_keys_may_be_valid_while_one_replaces_another() {
    let (old, new) = (signer(), signer());
    let mut set: serde_json::Value = serde_json::from_str(&old.key_set()).unwrap();
    let newer: serde_json::Value = serde_json::from_str(&new.key_set()).unwrap();
    set["keys"].as_array_mut().unwrap().push(newer["keys"][0].clone());
    let verifier = Verifier::new(&set.to_string(), "login", "encore").unwrap();
    for signer in [&old, &new] {
        assert_eq!(checked(&verifier, &signer.sign_pass(&claims())), Ok(claims()));
    }
}

#[test]
fn a_key_set_that_would_let_verifiers_forge_or_leaves_the_algorithm_open_is_refused() {
    let build = |set: serde_json::Value| Verifier::new(&set.to_string(), "login", "encore").map(|_| ());
    let good: serde_json::Value = serde_json::from_str(&signer().key_set()).unwrap();
    assert!(build(good.clone()).is_ok());
    let symmetric = json!({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "a", "alg": "HS256"}]});
    assert!(matches!(build(symmetric), Err(KeyError::Unusable { .. })));
    for field in ["kid", "alg"] {
        let mut lacking = good.clone();
        lacking["keys"][0].as_object_mut().unwrap().remove(field);
        assert!(matches!(build(lacking), Err(KeyError::Unusable { .. })), "without {field}");
    }
    let mut mismatched = good.clone();
    mismatched["keys"][0]["alg"] = "ES256".into();
    assert!(matches!(build(mismatched), Err(KeyError::Unusable { .. })));
    let mut twice = good.clone();
    twice["keys"] = json!([good["keys"][0], good["keys"][0]]);
    assert!(matches!(build(twice), Err(KeyError::Unusable { .. })));
    assert!(matches!(build(json!({"keys": []})), Err(KeyError::Count(0))));
    assert!(Verifier::new("not json", "login", "encore").is_err());
    assert!(Signer::from_pem("not a key").is_err());
}

#[test]
fn the_key_set_holds_no_private_key() {
    let signer = signer();
    let set: serde_json::Value = serde_json::from_str(&signer.key_set()).unwrap();
    assert!(set["keys"][0].get("d").is_none());
    assert!(!format!("{signer:?}").contains("PRIVATE"));
}
