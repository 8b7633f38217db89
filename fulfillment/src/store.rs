//! What fulfilment asks of the inventory store, as a trait, so that the same settlement runs in simulation.

use domain::ids::{Bucket, EventId, Partition, PaymentId, RefundId, ReservationId, SeatRef};
use domain::inventory::{EventRecord, FeedEntry, Outcome};
use domain::money::{Currency, Minor};
use raft_store::client::{Client, ClientError};
use std::future::Future;

/// An answer of the store, some time. A time-out means unknown; every command may be repeated.
pub type FromStore<T> = Result<T, ClientError>;

/// The store; meanings are those of [`raft_store::client::Client`].
pub trait Store: Clone + Send + Sync + 'static {
    /// The linearizable judge between payment and expiry.
    fn pay(
        &self,
        reservation: ReservationId,
        payment: PaymentId,
        amount: Minor,
        currency: Currency,
    ) -> impl Future<Output = FromStore<Outcome>> + Send;

    /// End a hold whose payment failed.
    fn cancel(&self, reservation: ReservationId) -> impl Future<Output = FromStore<Outcome>> + Send;

    /// Its payment is in progress.
    fn extend(&self, reservation: ReservationId, payment: PaymentId)
    -> impl Future<Output = FromStore<Outcome>> + Send;

    /// Give refunded seats back.
    fn refund(
        &self,
        refund: RefundId,
        reservation: ReservationId,
        seats: Vec<SeatRef>,
    ) -> impl Future<Output = FromStore<Outcome>> + Send;

    /// Reservations of fans that are not terminal.
    fn holds(&self, event: EventId) -> impl Future<Output = FromStore<Vec<ReservationId>>> + Send;

    /// Which of these are known and not terminal.
    fn live(&self, reservations: &[ReservationId]) -> impl Future<Output = FromStore<Vec<ReservationId>>> + Send;

    /// The ledger has written down how it ended.
    fn ledger_ack(&self, reservation: ReservationId) -> impl Future<Output = FromStore<Outcome>> + Send;

    /// The catalogue.
    fn events(&self) -> impl Future<Output = FromStore<Vec<EventRecord>>> + Send;

    /// Every partition of an event.
    fn partitions(&self, event: EventId) -> impl Future<Output = FromStore<Vec<Partition>>> + Send;

    /// Facts after a position.
    fn feed(
        &self,
        partition: Partition,
        after: u64,
        max: u32,
    ) -> impl Future<Output = FromStore<Vec<FeedEntry>>> + Send;

    /// Facts up to here are stored elsewhere.
    fn ack_feed(&self, partition: Partition, upto: u64) -> impl Future<Output = FromStore<()>> + Send;
}

impl Store for Client {
    async fn pay(
        &self,
        reservation: ReservationId,
        payment: PaymentId,
        amount: Minor,
        currency: Currency,
    ) -> FromStore<Outcome> {
        Client::pay(self, reservation, payment, amount, currency).await
    }

    async fn cancel(&self, reservation: ReservationId) -> FromStore<Outcome> {
        Client::cancel(self, reservation, None).await
    }

    async fn extend(&self, reservation: ReservationId, payment: PaymentId) -> FromStore<Outcome> {
        Client::extend(self, reservation, payment).await
    }

    async fn refund(&self, refund: RefundId, reservation: ReservationId, seats: Vec<SeatRef>) -> FromStore<Outcome> {
        Client::refund(self, refund, reservation, seats).await
    }

    async fn holds(&self, event: EventId) -> FromStore<Vec<ReservationId>> {
        let records = Client::records(self, event).await?;
        let held = records.iter().filter(|view| !view.status.is_terminal() && view.id.bucket != Bucket::BOX_OFFICE);
        Ok(held.map(|view| view.id).collect())
    }

    async fn live(&self, reservations: &[ReservationId]) -> FromStore<Vec<ReservationId>> {
        Client::live(self, reservations).await
    }

    async fn ledger_ack(&self, reservation: ReservationId) -> FromStore<Outcome> {
        Client::ledger_ack(self, reservation).await
    }

    async fn events(&self) -> FromStore<Vec<EventRecord>> {
        Client::events(self).await
    }

    async fn partitions(&self, event: EventId) -> FromStore<Vec<Partition>> {
        Client::partitions(self, event).await
    }

    async fn feed(&self, partition: Partition, after: u64, max: u32) -> FromStore<Vec<FeedEntry>> {
        Client::feed(self, partition, after, max).await
    }

    async fn ack_feed(&self, partition: Partition, upto: u64) -> FromStore<()> {
        Client::ack_feed(self, partition, upto).await
    }
}
