//! What the handlers ask of the rest of Encore, as traits, so that wire and errors are tested without a cluster.
//!
//! Production has one implementation of each: the store's client and the waiting room's leases.

use domain::ids::{
    EventId, IdempotencyKey, PassId, PaymentId, PromotionCode, ReservationId, SectionId, TicketId, UserId,
};
use domain::inventory::command::Begin;
use domain::inventory::query::{Placement, SeatMap};
use domain::inventory::record::EventStatus;
use domain::inventory::{EventRecord, Outcome, ReservationView, SectionPlan};
use domain::order::webhook::ProviderEvent;
use domain::time::WallMs;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use ledger::cancellations::Progress;
use ledger::payments::{BeginOutcome, BeginPayment, PaymentView, WebhookOutcome};
use ledger::refunds::{RefundOrder, RefundOutcome};
use ledger::tickets::Ticket;
use ledger::wallets::{DeviceGrant, DeviceRemoval};
use ledger::{Cancellations, LedgerError, Payments, Refunds, Tickets, Wallets};
use queue::leases::{Lease, Leases};
use raft_store::client::{Client, ClientError, ClusterStatus, PublishError, WatchItem};

/// An answer of the store, some time.
pub type FromStore<'a, T> = BoxFuture<'a, Result<T, ClientError>>;

/// The store, as far as HTTP needs it. Meanings are those of [`raft_store::client::Client`].
pub trait Store: Send + Sync + 'static {
    /// The whole catalogue, as any replica has it.
    fn events(&self) -> FromStore<'_, Vec<EventRecord>>;
    /// A section's geometry.
    fn plan(&self, event: EventId, section: SectionId) -> FromStore<'_, SectionPlan>;
    /// The state of every seat of a section, of at least this version.
    fn seat_map(&self, event: EventId, section: SectionId, min_version: u64) -> FromStore<'_, SeatMap>;
    /// What changed, for ever.
    fn watch(&self, event: EventId) -> BoxStream<'static, WatchItem>;
    /// Open a reservation.
    fn begin(&self, event: EventId, begin: Begin) -> FromStore<'_, Outcome>;
    /// What opening one under this key was answered, linearizable; opens nothing.
    fn answered(
        &self,
        event: EventId,
        user: UserId,
        key: IdempotencyKey,
        fingerprint: [u8; 16],
    ) -> FromStore<'_, Option<Outcome>>;
    /// End one.
    fn cancel(&self, reservation: ReservationId, user: Option<UserId>) -> FromStore<'_, Outcome>;
    /// Read one, linearizable.
    fn reservation(&self, id: ReservationId) -> FromStore<'_, Option<ReservationView>>;
    /// Who uses a promotion now, linearizable.
    fn promotion_uses(&self, event: EventId, code: PromotionCode) -> FromStore<'_, Vec<ReservationId>>;
    /// Close, reopen or cancel an event.
    fn set_status(&self, event: EventId, status: EventStatus) -> BoxFuture<'_, Result<(), PublishError>>;
    /// Where everything lives.
    fn placement(&self) -> FromStore<'_, Placement>;
    /// Every node about itself.
    fn status(&self) -> BoxFuture<'_, ClusterStatus>;
}

impl Store for Client {
    fn events(&self) -> FromStore<'_, Vec<EventRecord>> {
        Box::pin(Client::events(self))
    }
    fn plan(&self, event: EventId, section: SectionId) -> FromStore<'_, SectionPlan> {
        Box::pin(Client::plan(self, event, section))
    }
    fn seat_map(&self, event: EventId, section: SectionId, min_version: u64) -> FromStore<'_, SeatMap> {
        Box::pin(Client::seat_map(self, event, section, min_version))
    }
    fn watch(&self, event: EventId) -> BoxStream<'static, WatchItem> {
        Box::pin(Client::watch(self, event))
    }
    fn begin(&self, event: EventId, begin: Begin) -> FromStore<'_, Outcome> {
        Box::pin(Client::begin(self, event, begin))
    }
    fn answered(
        &self,
        event: EventId,
        user: UserId,
        key: IdempotencyKey,
        fingerprint: [u8; 16],
    ) -> FromStore<'_, Option<Outcome>> {
        Box::pin(Client::answered(self, event, user, key, fingerprint))
    }
    fn cancel(&self, reservation: ReservationId, user: Option<UserId>) -> FromStore<'_, Outcome> {
        Box::pin(Client::cancel(self, reservation, user))
    }
    fn reservation(&self, id: ReservationId) -> FromStore<'_, Option<ReservationView>> {
        Box::pin(Client::reservation(self, id))
    }
    fn promotion_uses(&self, event: EventId, code: PromotionCode) -> FromStore<'_, Vec<ReservationId>> {
        Box::pin(Client::promotion_uses(self, event, code))
    }
    fn set_status(&self, event: EventId, status: EventStatus) -> BoxFuture<'_, Result<(), PublishError>> {
        Box::pin(Client::set_status(self, event, status))
    }
    fn placement(&self) -> FromStore<'_, Placement> {
        Box::pin(Client::placement(self))
    }
    fn status(&self) -> BoxFuture<'_, ClusterStatus> {
        Box::pin(Client::status(self))
    }
}

/// The waiting room's memory cannot be asked. Nobody is let in on a guess.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the waiting room cannot be asked: {0}")]
pub struct LeasesDown(pub String);

/// Who is inside, as the waiting room knows it: it may delay or refuse, it never grants.
pub trait LeaseBook: Send + Sync + 'static {
    /// What is known of this user, who shows this pass.
    fn check(&self, event: EventId, user: UserId, pass: PassId) -> BoxFuture<'_, Result<Lease, LeasesDown>>;
    /// The user is in checkout with this reservation for so long.
    fn extend(
        &self,
        event: EventId,
        user: UserId,
        reservation: ReservationId,
        remaining_ms: u64,
    ) -> BoxFuture<'_, Result<(), LeasesDown>>;
    /// The reservation has ended, and with it the user's stay.
    fn free(&self, event: EventId, user: UserId, reservation: ReservationId) -> BoxFuture<'_, Result<(), LeasesDown>>;
}

impl LeaseBook for Leases {
    fn check(&self, event: EventId, user: UserId, pass: PassId) -> BoxFuture<'_, Result<Lease, LeasesDown>> {
        Box::pin(
            async move { Leases::check(self, event, &user, &pass).await.map_err(|lost| LeasesDown(lost.to_string())) },
        )
    }
    fn extend(
        &self,
        event: EventId,
        user: UserId,
        reservation: ReservationId,
        remaining_ms: u64,
    ) -> BoxFuture<'_, Result<(), LeasesDown>> {
        Box::pin(async move {
            let extended = Leases::extend(self, event, &user, reservation, remaining_ms).await;
            extended.map_err(|lost| LeasesDown(lost.to_string()))
        })
    }
    fn free(&self, event: EventId, user: UserId, reservation: ReservationId) -> BoxFuture<'_, Result<(), LeasesDown>> {
        Box::pin(async move {
            let freed = Leases::free(self, event, &user, reservation).await;
            freed.map(|_| ()).map_err(|lost| LeasesDown(lost.to_string()))
        })
    }
}

/// An answer of the ledger, some time.
pub type FromLedger<'a, T> = BoxFuture<'a, Result<T, LedgerError>>;

/// The ledger, as far as HTTP needs it. What writes runs to its end even if the client that asked is gone: a
/// transaction dropped half-way would leave its connection unusable.
pub trait Books: Send + Sync + 'static {
    /// Step 1 of paying.
    fn begin_payment(&self, request: BeginPayment) -> FromLedger<'_, BeginOutcome>;
    /// What step 1 answered to this key before.
    fn begun(&self, user: UserId, key: IdempotencyKey, fingerprint: String) -> FromLedger<'_, Option<BeginOutcome>>;
    /// One payment.
    fn payment(&self, payment: PaymentId) -> FromLedger<'_, Option<PaymentView>>;
    /// One verified event of a provider.
    fn record_event(&self, event: ProviderEvent, now: WallMs) -> FromLedger<'_, WebhookOutcome>;
    /// A fan's tickets, newest first.
    fn tickets_of_user(&self, user: UserId) -> FromLedger<'_, Vec<Ticket>>;
    /// One ticket.
    fn ticket(&self, ticket: TicketId) -> FromLedger<'_, Option<Ticket>>;
    /// A device asks for a ticket's secret.
    fn grant_device(&self, ticket: TicketId, device: String, now: WallMs) -> FromLedger<'_, DeviceGrant>;
    /// A device is removed; the ticket's secret is this one from now on.
    fn revoke_device(
        &self,
        ticket: TicketId,
        device: String,
        fresh_secret: Vec<u8>,
        now: WallMs,
    ) -> FromLedger<'_, DeviceRemoval>;
    /// An operator's refund of some seats of a booking, or of all that are live.
    fn request_refund(&self, order: RefundOrder) -> FromLedger<'_, RefundOutcome>;
    /// An operator calls an event off.
    fn cancel_event(&self, event: EventId, by: UserId, now: WallMs) -> FromLedger<'_, ()>;
    /// How far that is.
    fn cancellation(&self, event: EventId) -> FromLedger<'_, Progress>;
}

/// Run to the end, whatever becomes of who asked.
async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = ledger::Result<T>> + Send + 'static,
) -> ledger::Result<T> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) => Err(LedgerError::Unavailable(format!("the work was not finished: {error}"))),
    }
}

impl<L> Books for L
where
    L: Payments + Tickets + Wallets + Refunds + Cancellations + Clone + Send + Sync + 'static,
{
    fn begin_payment(&self, request: BeginPayment) -> FromLedger<'_, BeginOutcome> {
        let ledger = self.clone();
        Box::pin(to_the_end(async move { Payments::begin_payment(&ledger, &request).await }))
    }
    fn begun(&self, user: UserId, key: IdempotencyKey, fingerprint: String) -> FromLedger<'_, Option<BeginOutcome>> {
        let ledger = self.clone();
        Box::pin(to_the_end(async move { Payments::begun(&ledger, &user, &key, &fingerprint).await }))
    }
    fn payment(&self, payment: PaymentId) -> FromLedger<'_, Option<PaymentView>> {
        let ledger = self.clone();
        Box::pin(to_the_end(async move { Payments::payment(&ledger, payment).await }))
    }
    fn record_event(&self, event: ProviderEvent, now: WallMs) -> FromLedger<'_, WebhookOutcome> {
        let ledger = self.clone();
        Box::pin(to_the_end(async move { Payments::record_event(&ledger, &event, now).await }))
    }
    fn tickets_of_user(&self, user: UserId) -> FromLedger<'_, Vec<Ticket>> {
        let ledger = self.clone();
        Box::pin(to_the_end(async move { Tickets::tickets_of_user(&ledger, &user).await }))
    }
    fn ticket(&self, ticket: TicketId) -> FromLedger<'_, Option<Ticket>> {
        let ledger = self.clone();
        Box::pin(to_the_end(async move { Tickets::ticket(&ledger, ticket).await }))
    }
    fn grant_device(&self, ticket: TicketId, device: String, now: WallMs) -> FromLedger<'_, DeviceGrant> {
        let ledger = self.clone();
        Box::pin(to_the_end(async move { Wallets::grant_device(&ledger, ticket, &device, now).await }))
    }
    fn revoke_device(
        &self,
        ticket: TicketId,
        device: String,
        fresh_secret: Vec<u8>,
        now: WallMs,
    ) -> FromLedger<'_, DeviceRemoval> {
        let ledger = self.clone();
        Box::pin(to_the_end(async move { Wallets::revoke_device(&ledger, ticket, &device, &fresh_secret, now).await }))
    }
    fn request_refund(&self, order: RefundOrder) -> FromLedger<'_, RefundOutcome> {
        let ledger = self.clone();
        Box::pin(to_the_end(async move { Refunds::request_refund(&ledger, &order).await }))
    }
    fn cancel_event(&self, event: EventId, by: UserId, now: WallMs) -> FromLedger<'_, ()> {
        let ledger = self.clone();
        Box::pin(to_the_end(async move { Cancellations::cancel_event(&ledger, event, &by, now).await }))
    }
    fn cancellation(&self, event: EventId) -> FromLedger<'_, Progress> {
        let ledger = self.clone();
        Box::pin(to_the_end(async move { Cancellations::cancellation(&ledger, event).await }))
    }
}
