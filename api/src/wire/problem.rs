//! The one shape of every error: a code for programs, a sentence for people, and what else the code promises.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Every error, whatever its status. Besides these two, a code may bring more fields: `SEAT_UNAVAILABLE` brings
/// `unavailable_seats` and `suggestion`, `INVALID_FIELD` brings `field`, `HOLD_EXPIRED` brings `expired_at`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Stable, in capitals, such as `SEAT_UNAVAILABLE`.
    pub error: String,
    /// A sentence that a person understands.
    pub message: String,
    /// Fields that belong to this code.
    #[serde(flatten)]
    #[schema(value_type = Object, additional_properties)]
    pub details: Map<String, Value>,
}
