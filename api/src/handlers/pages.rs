//! The pages and their assets, embedded in the binary, under a policy that lets them talk only to our own planes.

use crate::error::HttpError;
use crate::http_cache::{not_modified, tagged};
use crate::router::BrowseState;
use crate::wire::catalogue::PageConfig;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use rust_embed::{Embed, EmbeddedFile};
use std::sync::Arc;

#[derive(Embed)]
#[folder = "../web"]
struct Assets;

/// A page (`/`, `/checkout`), or an asset by its path.
pub async fn page(State(state): State<Arc<BrowseState>>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    match find(uri.path()) {
        None => HttpError::no_such_address().into_response(),
        Some(_) if method != Method::GET && method != Method::HEAD => HttpError::method_not_allowed().into_response(),
        Some((name, file)) => serve(&state, &headers, &name, file),
    }
}

fn find(path: &str) -> Option<(String, EmbeddedFile)> {
    let path = path.trim_matches('/');
    let names = match path {
        "" => vec!["index.html".to_owned()],
        path => vec![path.to_owned(), format!("{path}.html"), format!("{path}/index.html")],
    };
    names.into_iter().find_map(|name| Assets::get(&name).map(|file| (name, file)))
}

fn serve(state: &BrowseState, headers: &HeaderMap, name: &str, file: EmbeddedFile) -> Response {
    let tag = format!("\"{}\"", hex::encode(&file.metadata.sha256_hash()[..16]));
    let cache = HeaderValue::from_static("no-cache");
    if not_modified(headers, &tag) {
        return tagged(StatusCode::NOT_MODIFIED.into_response(), &tag, cache);
    }
    let mut response = file.data.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
    headers.insert(header::CONTENT_SECURITY_POLICY, state.policy.clone());
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    tagged(response, &tag, cache)
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("json") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        Some("woff2") => "font/woff2",
        Some("txt" | "md") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// What the pages may load and whom they may ask: themselves, and the configured planes, the waiting room also by socket.
pub fn content_policy(public: &PageConfig) -> String {
    let mut connect = vec!["'self'".to_owned()];
    for origin in [&public.queue, &public.buy] {
        if is_origin(origin) {
            connect.push(origin.clone());
        }
    }
    if is_origin(&public.queue) {
        connect.push(public.queue.replacen("http", "ws", 1));
    }
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; \
         manifest-src 'self'; worker-src 'self'; connect-src {}; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'",
        connect.join(" ")
    )
}

/// `scheme://host[:port]` and nothing that could end a directive.
pub fn is_origin(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|host| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_names_the_planes_and_nothing_else() {
        let public = PageConfig { queue: "http://127.0.0.1:7001".into(), buy: "https://buy.example".into() };
        let policy = content_policy(&public);
        assert!(
            policy.contains("connect-src 'self' http://127.0.0.1:7001 https://buy.example ws://127.0.0.1:7001;"),
            "{policy}"
        );
        assert!(policy.contains("script-src 'self';") && !policy.contains("unsafe"), "{policy}");
        let empty = content_policy(&PageConfig::default());
        assert!(empty.contains("connect-src 'self';"), "{empty}");
        assert!(!is_origin("http://a; script-src *") && !is_origin("ftp://a") && !is_origin("http://a/b"));
    }
}
