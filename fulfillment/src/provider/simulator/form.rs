//! `application/x-www-form-urlencoded`, as Stripe's clients send it: flat names such as `metadata[payment_id]`.

use std::collections::BTreeMap;

/// A form by name. A repeated name keeps its last value.
pub(super) type Form = BTreeMap<String, String>;

/// Read a form; `None` if it is not one.
pub(super) fn read(text: &str) -> Option<Form> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?, decode(value)?))
        })
        .collect()
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The entries of `metadata[…]`.
pub(super) fn metadata(form: &Form) -> BTreeMap<String, String> {
    let entry = |(name, value): (&String, &String)| {
        let name = name.strip_prefix("metadata[")?.strip_suffix(']')?;
        Some((name.to_owned(), value.clone()))
    };
    form.iter().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_with_its_metadata() {
        let form = read("amount=80&metadata%5Bpayment_id%5D=pay_1&note=a+b%26c&flag").expect("a form");
        assert_eq!(form["amount"], "80");
        assert_eq!(form["note"], "a b&c");
        assert_eq!(form["flag"], "");
        assert_eq!(metadata(&form)["payment_id"], "pay_1");
        assert_eq!(read("a=%zz"), None);
        assert_eq!(read("a=%2"), None);
    }
}
