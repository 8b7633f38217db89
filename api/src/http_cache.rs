//! Entity tags and cache lifetimes.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;

/// Whether the client already has what carries this tag.
pub fn not_modified(headers: &HeaderMap, tag: &str) -> bool {
    headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|list| {
        list.split(',').map(str::trim).any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
    })
}

/// The response with its tag and how long it may be used.
pub fn tagged(mut response: Response, tag: &str, cache: HeaderValue) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, cache);
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_weakly_and_in_lists() {
        let with =
            |value: &'static str| HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_static(value))]);
        assert!(not_modified(&with("\"a\""), "\"a\""));
        assert!(not_modified(&with("\"b\", W/\"a\""), "\"a\""));
        assert!(not_modified(&with("*"), "\"a\""));
        assert!(!not_modified(&with("\"b\""), "\"a\""));
        assert!(!not_modified(&HeaderMap::new(), "\"a\""));
    }
}
