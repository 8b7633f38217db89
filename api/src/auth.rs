//! Who asks: the fan's token, the operator's role, and the waiting room's pass.

use crate::error::HttpError;
use crate::wire::wall_now;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use domain::ids::{EventId, UserId};
use domain::pass::PassClaims;
use queue::token::{Fan, TokenError, Verifier};

/// The header that carries the waiting room's pass.
pub const PASS_HEADER: &str = "x-queue-token";

/// A state that knows how to verify tokens.
pub trait Verifies {
    /// The verifier of fans' and operators' tokens.
    fn verifier(&self) -> &Verifier;
}

/// Who signed in. As an argument of a handler it refuses everybody else with 401.
#[derive(Clone, Debug)]
pub struct SignedIn(pub Fan);

impl<S: Verifies + Send + Sync> FromRequestParts<S> for SignedIn {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpError> {
        signed_in(&parts.headers, state.verifier()).map(Self)
    }
}

/// An operator. As an argument of a handler it refuses everybody else, with 401 or 403.
#[derive(Clone, Debug)]
pub struct Operator(pub Fan);

impl<S: Verifies + Send + Sync> FromRequestParts<S> for Operator {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpError> {
        let fan = signed_in(&parts.headers, state.verifier())?;
        if fan.operator { Ok(Self(fan)) } else { Err(HttpError::operators_only()) }
    }
}

fn signed_in(headers: &HeaderMap, verifier: &Verifier) -> Result<Fan, HttpError> {
    let value = headers.get(header::AUTHORIZATION).ok_or_else(|| HttpError::unauthorized("no token was sent"))?;
    let token = value
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
        .ok_or_else(|| HttpError::unauthorized("the Authorization header does not hold a bearer token"))?;
    verifier.fan(token, wall_now()).map_err(HttpError::unauthorized)
}

/// A genuine pass, or why it is not good any more.
pub type Shown = Result<PassClaims, HttpError>;

/// The pass of `user` for `event`, verified without asking anybody. Whether its lease is live and its id unused is
/// decided elsewhere. A genuine one that is not good, or not any more, is let through as such: whoever was inside once may
/// hear what a wish was answered. Without a genuine one nobody is asked anything, so that a crowd at the door costs the
/// store nothing.
pub fn pass(headers: &HeaderMap, verifier: &Verifier, event: EventId, user: &UserId) -> Result<Shown, HttpError> {
    let value = headers.get(PASS_HEADER).ok_or_else(|| HttpError::pass_invalid("no X-Queue-Token was sent"))?;
    let token = value.to_str().map_err(|_| HttpError::pass_invalid("the X-Queue-Token cannot be read"))?;
    match verifier.pass(token.trim(), event, user, wall_now()) {
        Ok(claims) => Ok(Ok(claims)),
        Err(error @ (TokenError::Expired | TokenError::Pass(_))) => Ok(Err(HttpError::pass_invalid(error))),
        Err(error) => Err(HttpError::pass_invalid(error)),
    }
}
