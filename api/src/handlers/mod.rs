//! One file a resource: parse, call, answer.

pub mod admin;
pub mod best_available;
pub mod blocks;
pub mod config_json;
pub mod events;
pub mod layout;
pub mod openapi;
pub mod pages;
pub mod payments;
pub mod reservations;
pub mod seats;
pub mod stream;
pub mod tickets;
pub mod waiting_room;
pub mod webhooks;

use crate::error::HttpError;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use domain::ids::EventId;
use serde::de::DeserializeOwned;
use std::str::FromStr;

/// Parts of the path as text. What cannot even be read is an address that does not exist.
#[derive(Debug)]
pub struct At<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for At<T> {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpError> {
        Path::<T>::from_request_parts(parts, state)
            .await
            .map(|Path(parts)| Self(parts))
            .map_err(|_| HttpError::no_such_address())
    }
}

/// An id in the path. One that cannot be is one that does not exist.
fn id<T: FromStr>(text: &str, what: &'static str) -> Result<T, HttpError> {
    text.parse().map_err(|_| HttpError::not_found(what))
}

fn event_id(text: &str) -> Result<EventId, HttpError> {
    id(text, "event")
}
