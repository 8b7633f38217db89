//! What operators ask on their own listener: the sale's state, refunds, promotions, the cluster.

use super::events::summaries;
use super::{At, event_id, id};
use crate::auth::Operator;
use crate::body::Parsed;
use crate::cart;
use crate::error::HttpError;
use crate::idempotency::{Keyed, fingerprint};
use crate::ports::Books;
use crate::router::AdminState;
use crate::wire::admin::{
    AdminEvents, CancellationView, Cluster, EventPlacementView, GroupView, OrdersView, PromotionUses, RefundAccepted,
    RefundRequest, ReplicaView, SeatsToRefund, StatusRequest, WantedStatus,
};
use crate::wire::problem::Problem;
use crate::wire::wall_now;
use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::ids::{EventId, Partition, PromotionCode, ReservationId, SeatRef, UserId};
use domain::inventory::EventRecord;
use domain::inventory::record::EventStatus;
use domain::order::refund::RefundReason;
use ledger::cancellations::{Progress, Tally};
use ledger::refunds::{RefundOrder, RefundOutcome};
use raft_store::client::PublishError;
use std::sync::Arc;

/// Every event.
#[utoipa::path(
    get, path = "/admin/events", tag = "admin", security(("operator" = [])),
    responses(
        (status = 200, body = AdminEvents), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 503, body = Problem)
    )
)]
pub async fn events(
    State(state): State<Arc<AdminState>>,
    Operator(_operator): Operator,
) -> Result<Json<AdminEvents>, HttpError> {
    let events = state.catalogue.events().await?;
    Ok(Json(AdminEvents { events: summaries(events.values().map(Arc::as_ref)) }))
}

/// Open, close or cancel an event. Repeating it changes nothing. Cancelling is for good: holds end, every order is refunded
/// and its tickets let nobody in; repeated, it says how far that is.
#[utoipa::path(
    post, path = "/admin/events/{id}/status", tag = "admin", security(("operator" = [])),
    request_body = StatusRequest,
    params(
        ("id" = u32, Path, description = "The event"),
        ("Idempotency-Key" = String, Header, description = "A fresh one for each wish; the same one repeats it")
    ),
    responses(
        (status = 202, description = "Cancelled: what follows, and how far it is", body = CancellationView),
        (status = 204, description = "It is open, or closed"), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 404, body = Problem),
        (status = 409, description = "EVENT_CANCELLED: it cannot be opened or closed any more", body = Problem),
        (status = 422, body = Problem), (status = 503, body = Problem)
    )
)]
pub async fn set_status(
    State(state): State<Arc<AdminState>>,
    Operator(operator): Operator,
    Keyed(_repeating_changes_nothing): Keyed,
    At(text): At<String>,
    Parsed(request): Parsed<StatusRequest>,
) -> Result<Response, HttpError> {
    let event = state.catalogue.event(event_id(&text)?).await?;
    let status = match request.status {
        WantedStatus::Open => EventStatus::Scheduled,
        WantedStatus::Closed => EventStatus::Closed,
        WantedStatus::Cancelled => EventStatus::Cancelled,
    };
    // To the end, whatever becomes of who asked: half of it would leave some buckets open, or an event cancelled in the
    // store and owed by nobody.
    let change = tokio::spawn(change_status(state.clone(), event.id, status, operator.user.clone()));
    change.await.map_err(|error| {
        tracing::error!(%error, "a change of status did not finish");
        HttpError::internal()
    })??;
    if status != EventStatus::Cancelled {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let progress = books(&state)?.cancellation(event.id).await?;
    Ok((StatusCode::ACCEPTED, Json(cancellation(&event, &progress))).into_response())
}

/// The store first: once nothing can be held any more, what the ledger owes is all that there will be. Should this process
/// die in between, fulfilment tells the ledger.
async fn change_status(
    state: Arc<AdminState>,
    event: EventId,
    status: EventStatus,
    operator: UserId,
) -> Result<(), HttpError> {
    state.catalogue.store().set_status(event, status).await.map_err(|error| match error {
        PublishError::Store(error) => error.into(),
        PublishError::Refused { partition: Partition::Meta, .. } if status != EventStatus::Cancelled => {
            let message = "This event is cancelled, for good: its orders are being refunded.";
            HttpError::new(StatusCode::CONFLICT, "EVENT_CANCELLED", message)
        }
        other => {
            tracing::error!(error = %other, "the store refused a change of status");
            HttpError::internal()
        }
    })?;
    tracing::info!(event = event.0, ?status, %operator, "an operator changed an event");
    if status == EventStatus::Cancelled {
        books(&state)?.cancel_event(event, operator, wall_now()).await?;
    }
    Ok(())
}

fn cancellation(event: &EventRecord, progress: &Progress) -> CancellationView {
    let view = |tally: Tally| OrdersView { orders: tally.orders, amount_cents: tally.amount.0 };
    CancellationView {
        event_id: event.id.0,
        currency: event.currency.code().to_owned(),
        holds_ended: progress.cancellation.as_ref().is_some_and(|cancellation| cancellation.holds_ended),
        to_refund: view(progress.sold),
        refunding: view(progress.refunding),
        refunded: view(progress.refunded),
        failed: view(progress.failed),
    }
}

fn books(state: &AdminState) -> Result<&dyn Books, HttpError> {
    state
        .ledger
        .as_deref()
        .ok_or_else(|| HttpError::unavailable("LEDGER_UNAVAILABLE", "This listener was started without a ledger.", 60))
}

/// How often a promotion is used now.
#[utoipa::path(
    get, path = "/admin/events/{id}/promotions/{code}", tag = "admin", security(("operator" = [])),
    params(("id" = u32, Path, description = "The event"), ("code" = String, Path, description = "The code")),
    responses(
        (status = 200, body = PromotionUses), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 404, body = Problem), (status = 503, body = Problem)
    )
)]
pub async fn promotion_uses(
    State(state): State<Arc<AdminState>>,
    Operator(_operator): Operator,
    At((event, code)): At<(String, String)>,
) -> Result<Json<PromotionUses>, HttpError> {
    let code = PromotionCode::typed(&code).map_err(|_| HttpError::not_found("promotion"))?;
    let event = state.catalogue.event(event_id(&event)?).await?;
    let known = state.catalogue.store().placement().await?;
    if known.events.get(&event.id).is_none_or(|placement| !placement.promotions.contains(&code)) {
        return Err(HttpError::not_found("promotion"));
    }
    let reservations = state.catalogue.store().promotion_uses(event.id, code.clone()).await?;
    Ok(Json(PromotionUses {
        code: code.to_string(),
        uses: reservations.len() as u64,
        reservations: reservations.iter().map(ToString::to_string).collect(),
    }))
}

/// Where everything lives.
#[utoipa::path(
    get, path = "/admin/cluster", tag = "admin", security(("operator" = [])),
    responses(
        (status = 200, body = Cluster), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 503, body = Problem)
    )
)]
pub async fn cluster(
    State(state): State<Arc<AdminState>>,
    Operator(_operator): Operator,
) -> Result<Json<Cluster>, HttpError> {
    let store = state.catalogue.store();
    let placement = store.placement().await?;
    let nodes = serde_json::to_value(store.status().await).unwrap_or_default();
    let groups = placement.groups.iter().map(|(group, replicas)| GroupView {
        group: group.0,
        replicas: replicas
            .iter()
            .map(|(node, address)| ReplicaView { node: node.0, address: address.clone() })
            .collect(),
    });
    let events = placement.events.iter().map(|(event, placed)| EventPlacementView {
        event_id: event.0,
        home_group: placed.home.0.0,
        buckets: placed.buckets,
        sections: placed.sections.len() as u32,
        moved: placed.moved.len() as u32,
    });
    Ok(Json(Cluster { groups: groups.collect(), events: events.collect(), nodes }))
}

/// Give a paid reservation's money back, whole or by seats. The same request under the same key is one refund.
#[utoipa::path(
    post, path = "/admin/orders/{id}/refund", tag = "admin", security(("operator" = [])), request_body = RefundRequest,
    params(
        ("id" = String, Path, description = "The reservation that was paid"),
        ("Idempotency-Key" = String, Header, description = "A fresh one for each wish; the same one repeats it")
    ),
    responses(
        (status = 202, description = "Owed, and on its way without anybody's help", body = RefundAccepted),
        (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 404, description = "RESERVATION_NOT_FOUND: nothing was booked under it", body = Problem),
        (status = 409, description = "NOTHING_TO_REFUND, SEATS_NOT_SOLD: some of the seats, and none was refunded; IDEMPOTENCY_KEY_REUSED", body = Problem),
        (status = 422, description = "seats is neither \"all\" nor a list of at least one", body = Problem),
        (status = 503, body = Problem)
    )
)]
pub async fn refund(
    State(state): State<Arc<AdminState>>,
    Operator(operator): Operator,
    Keyed(key): Keyed,
    At(text): At<String>,
    Parsed(request): Parsed<RefundRequest>,
) -> Result<Response, HttpError> {
    let ledger = books(&state)?;
    let reservation: ReservationId = id(&text, "reservation")?;
    let path = format!("/admin/orders/{reservation}/refund");
    let order = RefundOrder {
        reservation,
        seats: seats_to_refund(&state, reservation, &request.seats).await?,
        reason: RefundReason::Operator,
        operator: operator.user.clone(),
        key,
        fingerprint: hex::encode(fingerprint(&Method::POST, &path, &request)),
        now: wall_now(),
    };
    match ledger.request_refund(order).await? {
        RefundOutcome::Requested(refund) => {
            tracing::info!(%reservation, operator = %operator.user, "an operator asked for a refund");
            let refund_ids = vec![refund.to_string()];
            let reservation_id = reservation.to_string();
            Ok((StatusCode::ACCEPTED, Json(RefundAccepted { reservation_id, refund_ids })).into_response())
        }
        RefundOutcome::KeyReused => {
            let message = "This Idempotency-Key was used for another refund. Use a fresh one.";
            Err(HttpError::new(StatusCode::CONFLICT, "IDEMPOTENCY_KEY_REUSED", message))
        }
        RefundOutcome::NothingLeft => {
            let message = "Nothing of this order is left to refund.";
            Err(HttpError::new(StatusCode::CONFLICT, "NOTHING_TO_REFUND", message))
        }
        RefundOutcome::NotAllLive(seats) => {
            let message =
                format!("{} of these seats are not sold to this order any more. Nothing was refunded.", seats.len());
            Err(HttpError::new(StatusCode::CONFLICT, "SEATS_NOT_SOLD", message))
        }
        RefundOutcome::NotBooked => Err(HttpError::not_found("reservation")),
    }
}

/// Which seats; none for all.
async fn seats_to_refund(
    state: &AdminState,
    reservation: ReservationId,
    wanted: &SeatsToRefund,
) -> Result<Option<Vec<SeatRef>>, HttpError> {
    let labels = match wanted {
        SeatsToRefund::All(_) => return Ok(None),
        SeatsToRefund::Some(labels) if labels.is_empty() => {
            return Err(HttpError::invalid_field("seats", "name the seats to refund, or say \"all\""));
        }
        SeatsToRefund::Some(labels) => labels,
    };
    let event = state.catalogue.event(reservation.event).await?;
    let mut seats = Vec::new();
    for label in labels {
        seats.push(cart::seat(&state.catalogue, &event, label).await?);
    }
    Ok(Some(seats))
}
