//! Settings for people's eyes: what a name marks as secret is hidden, and so is a password inside a URL.

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

const HIDDEN: &str = "(hidden)";

/// The settings as TOML, secrets hidden.
pub fn shown<T: Serialize>(settings: &T) -> Result<String> {
    let mut value = serde_json::to_value(settings)?;
    hide(&mut value);
    drop_nulls(&mut value);
    Ok(toml::to_string(&value)?)
}

fn is_secret(name: &str) -> bool {
    let public = name.contains("public") || name.ends_with("_file") || name.ends_with("_path") || name.ends_with("_ms");
    let words = ["secret", "password", "key", "token", "pem"];
    !public && name.split('_').any(|word| words.iter().any(|secret| word.trim_end_matches('s') == *secret))
}

fn hide(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // Where a key is, is no secret: beside a certificate stands the name of a file.
            let files = fields.contains_key("ca") && fields.contains_key("cert");
            for (name, field) in fields.iter_mut() {
                if is_secret(name) && !files { hide_all(field) } else { hide(field) }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::String(text) => *text = without_password(text),
        _ => {}
    }
}

/// Everything below a secret name is secret, except what is empty: an operator wants to see that it is missing.
fn hide_all(value: &mut Value) {
    match value {
        Value::Null => {}
        Value::Object(fields) if fields.contains_key("public") || fields.contains_key("x") => hide(value),
        Value::Object(fields) => fields.values_mut().for_each(hide_all),
        Value::Array(items) => items.iter_mut().for_each(hide_all),
        Value::String(text) if text.is_empty() => {}
        other => *other = Value::String(HIDDEN.to_owned()),
    }
}

/// `scheme://user:password@host` without the password.
fn without_password(text: &str) -> String {
    let parts = || {
        let (scheme, rest) = text.split_once("://")?;
        let (user, host) = rest.rsplit_once('@')?;
        let (name, _password) = user.split_once(':')?;
        Some(format!("{scheme}://{name}:{HIDDEN}@{host}"))
    };
    parts().unwrap_or_else(|| text.to_owned())
}

/// Take out what is not set: TOML has no word for it.
pub fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hides_secrets_and_keeps_what_an_operator_needs() {
        let settings = serde_json::json!({
            "signing_key": "S3CRET", "webhook_secrets": ["S3CRET"], "public_key": "shown-1", "missing_key": "",
            "redis": {"url": "redis://:S3CRET@host:1/"}, "ledger_url": "postgres://buy:S3CRET@host/db",
            "key_file": "shown-2", "hold_ms": 5, "absent": null,
        });
        let text = shown(&settings).expect("toml");
        assert!(!text.contains("S3CRET"), "{text}");
        for kept in ["shown-1", "shown-2", "host:1", "postgres://buy:", "hold_ms = 5", "missing_key = \"\""] {
            assert!(text.contains(kept), "{kept} is missing in {text}");
        }
    }
}
