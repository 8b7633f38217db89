//! Who is asking: a fan's or an operator's login token, or a session that joining gave out.

use crate::server::error::Refusal;
use crate::token::{Fan, Verifier};
use axum::http::{HeaderMap, StatusCode, header};
use domain::time::WallMs;
use std::time::{SystemTime, UNIX_EPOCH};

/// This process's wall clock.
pub(crate) fn wall_now() -> WallMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The fan of the request's Bearer token.
pub(crate) fn fan(headers: &HeaderMap, verifier: &Verifier) -> Result<Fan, Refusal> {
    let value = headers.get(header::AUTHORIZATION).ok_or_else(Refusal::login_needed)?;
    let text = value.to_str().map_err(|_| Refusal::login_needed())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(Refusal::login_needed)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Refusal::login_needed());
    }
    verifier.fan(token.trim(), wall_now()).map_err(Refusal::bad_token)
}

/// The operator of the request's Bearer token.
pub(crate) fn operator(headers: &HeaderMap, verifier: &Verifier) -> Result<Fan, Refusal> {
    let fan = fan(headers, verifier)?;
    if !fan.operator {
        let message = "Only an operator may do this.";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "FORBIDDEN", message));
    }
    Ok(fan)
}
