//! One typed call for each thing that a fan, the settlement or an operator asks of the store.

use super::{Client, ClientError, Freshness, PublishError};
use domain::ids::{
    Bucket, EventId, IdempotencyKey, Partition, PaymentId, PromotionCode, RefundId, ReservationId, SeatRef, SectionId,
    UserId,
};
use domain::inventory::command::{Begin, Checkout, Manage, Meta};
use domain::inventory::query::{Owner, SeatMap, Stock};
use domain::inventory::record::EventStatus;
use domain::inventory::{
    Answer, Command, EventRecord, FeedEntry, Outcome, Query, Refusal, ReservationView, SectionPlan,
};
use domain::money::{Currency, Minor};
use domain::time::WallMs;
use std::collections::BTreeMap;

fn unexpected<T>(answer: Answer) -> Result<T, ClientError> {
    Err(ClientError::Protocol(format!("{answer:?}").chars().take(80).collect()))
}

/// An event that does not exist has no bucket.
fn no_event(error: ClientError) -> Result<bool, ClientError> {
    if matches!(error, ClientError::NoSuchEvent(_)) { Ok(false) } else { Err(error) }
}

impl Client {
    /// Opens a reservation in the user's bucket and waits until it is decided: `Reservation` (held, or as it stands when
    /// the key is known), `Refused` or `Advised`. `Reservation` in state preparing comes out only when the
    /// participants took longer than the call may. A code that has no partition is refused as advice: nobody could vote
    /// for it, and the reservation would wait for its timeout.
    pub async fn begin(&self, event: EventId, begin: Begin) -> Result<Outcome, ClientError> {
        let buckets = self.router.event_placement(event).await?.buckets;
        if let Some(code) = &begin.promotion
            && !self.router.has_promotion(event, code).await?
        {
            return Ok(Outcome::Advised(Refusal::PromotionUnknown));
        }
        let partition = Partition::Checkouts { event, bucket: begin.bucket(buckets) };
        let mut begin = begin;
        loop {
            let command = Command::Checkout(Checkout::Begin(Box::new(begin.clone())));
            let outcome = self.router.submit_until_decided(partition.clone(), command).await?;
            match outcome {
                // Records were just collected, and the floor may be ahead of our clock by its margin. Whoever waits here
                // is no late twin of a collected request: ask with a clock after the floor.
                Outcome::Stale { floor } if floor >= begin.sent_at => begin.sent_at = WallMs(floor.0 + 1),
                decided => return Ok(decided),
            }
        }
    }

    /// Whether the event has the bucket that an id names. How many it has is fixed when it is first published; without
    /// this look, an id that was made up would be searched for until the deadline.
    async fn has_bucket(&self, id: ReservationId) -> Result<bool, ClientError> {
        let buckets = self.router.event_placement(id.event).await?.buckets;
        Ok(id.bucket.0 < buckets || id.bucket == Bucket::BOX_OFFICE)
    }

    async fn checkout(&self, reservation: ReservationId, command: Checkout) -> Result<Outcome, ClientError> {
        if !self.has_bucket(reservation).await? {
            return Ok(Outcome::Unknown);
        }
        self.router.submit_until_decided(reservation.partition(), Command::Checkout(command)).await
    }

    /// The commit point of the sale: `Reservation` (paid), `MustRefund` or `Unknown`. `Preparing` comes out only when the
    /// participants took longer than the call may: ask again.
    pub async fn pay(
        &self,
        reservation: ReservationId,
        payment: PaymentId,
        amount: Minor,
        currency: Currency,
    ) -> Result<Outcome, ClientError> {
        self.checkout(reservation, Checkout::Pay { reservation, payment, amount, currency }).await
    }

    /// Ends a hold or an offer; `None` for the settlement and operators. `Reservation` (as it now stands) or `Unknown`.
    pub async fn cancel(&self, reservation: ReservationId, user: Option<UserId>) -> Result<Outcome, ClientError> {
        self.checkout(reservation, Checkout::Cancel { reservation, user }).await
    }

    /// Moves the deadline of a hold whose payment is in progress, within the fixed bound.
    pub async fn extend(&self, reservation: ReservationId, payment: PaymentId) -> Result<Outcome, ClientError> {
        self.checkout(reservation, Checkout::Extend { reservation, payment }).await
    }

    /// Turns a waitlist offer into a hold.
    pub async fn accept(&self, reservation: ReservationId, user: UserId) -> Result<Outcome, ClientError> {
        self.checkout(reservation, Checkout::Accept { reservation, user }).await
    }

    /// Gives seats of a paid reservation back; only for the ledger's outbox.
    pub async fn refund(
        &self,
        refund: RefundId,
        reservation: ReservationId,
        seats: Vec<SeatRef>,
    ) -> Result<Outcome, ClientError> {
        self.checkout(reservation, Checkout::Refund { refund, reservation, seats }).await
    }

    /// The ledger has written down how the reservation ended.
    pub async fn ledger_ack(&self, reservation: ReservationId) -> Result<Outcome, ClientError> {
        self.checkout(reservation, Checkout::LedgerAck { reservation }).await
    }

    /// One reservation, linearizable. An event that does not exist has no reservations.
    pub async fn reservation(&self, id: ReservationId) -> Result<Option<ReservationView>, ClientError> {
        if !self.has_bucket(id).await.or_else(no_event)? {
            return Ok(None);
        }
        match self.query(id.partition(), Query::Reservation(id), Freshness::Linearizable).await {
            Ok(Answer::Reservation(view)) => Ok(view.map(|view| *view)),
            Ok(other) => unexpected(other),
            Err(ClientError::NoSuchEvent(_) | ClientError::Invalid(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What a Begin of this user under this key was answered, as a repetition would be told now, linearizable; `None` if
    /// there never was one. Opens nothing.
    pub async fn answered(
        &self,
        event: EventId,
        user: UserId,
        key: IdempotencyKey,
        fingerprint: [u8; 16],
    ) -> Result<Option<Outcome>, ClientError> {
        let bucket = user.bucket(self.router.event_placement(event).await?.buckets);
        let question = Query::Answered { user, key, fingerprint };
        match self.query(Partition::Checkouts { event, bucket }, question, Freshness::Linearizable).await? {
            Answer::Answered(outcome) => Ok(outcome.map(|outcome| *outcome)),
            other => unexpected(other),
        }
    }

    /// Which of these are known and not terminal, linearizable; one question a bucket.
    pub async fn live(&self, ids: &[ReservationId]) -> Result<Vec<ReservationId>, ClientError> {
        let mut buckets: BTreeMap<Partition, Vec<ReservationId>> = BTreeMap::new();
        for id in ids {
            if !self.has_bucket(*id).await.or_else(no_event)? {
                continue;
            }
            buckets.entry(id.partition()).or_default().push(*id);
        }
        let asked = buckets.into_iter().map(|(partition, ids)| async move {
            match self.query(partition, Query::Live(ids), Freshness::Linearizable).await {
                Ok(Answer::Live(ids)) => Ok(ids),
                Ok(other) => unexpected(other),
                Err(ClientError::NoSuchEvent(_) | ClientError::Invalid(_)) => Ok(Vec::new()),
                Err(error) => Err(error),
            }
        });
        Ok(futures::future::try_join_all(asked).await?.concat())
    }

    /// The whole catalogue, as any replica has it.
    pub async fn events(&self) -> Result<Vec<EventRecord>, ClientError> {
        match self.query(Partition::Meta, Query::Events, Freshness::Any).await? {
            Answer::Events(events) => Ok(events),
            other => unexpected(other),
        }
    }

    /// One event of the catalogue.
    pub async fn event(&self, event: EventId) -> Result<Option<EventRecord>, ClientError> {
        Ok(self.events().await?.into_iter().find(|record| record.id == event))
    }

    /// A section's geometry.
    pub async fn plan(&self, event: EventId, section: SectionId) -> Result<SectionPlan, ClientError> {
        match self.query(Partition::Seats { event, section }, Query::Plan, Freshness::Any).await? {
            Answer::Plan(plan) => Ok(*plan),
            other => unexpected(other),
        }
    }

    /// The state of every seat of a section, from any replica; of at least `min_version`, and never older than what any
    /// clone of this client has seen.
    pub async fn seat_map(&self, event: EventId, section: SectionId, min_version: u64) -> Result<SeatMap, ClientError> {
        self.router.seat_map(Partition::Seats { event, section }, min_version).await
    }

    /// How many seats of an event are free, held, sold and blocked, summed over its sections.
    pub async fn stock(&self, event: EventId) -> Result<Stock, ClientError> {
        let mut sum = Stock::default();
        for stock in self.stock_by_section(event).await?.values() {
            sum.free += stock.free;
            sum.held += stock.held;
            sum.sold += stock.sold;
            sum.blocked += stock.blocked;
        }
        Ok(sum)
    }

    /// The same for each section.
    pub async fn stock_by_section(&self, event: EventId) -> Result<BTreeMap<SectionId, Stock>, ClientError> {
        let sections = self.router.event_placement(event).await?.sections;
        let asked = sections.into_iter().map(|section| async move {
            match self.query(Partition::Seats { event, section }, Query::Stock, Freshness::Any).await? {
                Answer::Stock(stock) => Ok((section, stock)),
                other => unexpected(other),
            }
        });
        Ok(futures::future::try_join_all(asked).await?.into_iter().collect())
    }

    /// Who owns each seat of a section that is not free, linearizable; for audits.
    pub async fn owners(&self, event: EventId, section: SectionId) -> Result<Vec<Owner>, ClientError> {
        match self.query(Partition::Seats { event, section }, Query::Owners, Freshness::Linearizable).await? {
            Answer::Owners(owners) => Ok(owners),
            other => unexpected(other),
        }
    }

    /// Every reservation of an event that is still kept, linearizable for each bucket; for audits.
    pub async fn records(&self, event: EventId) -> Result<Vec<ReservationView>, ClientError> {
        let placement = self.router.event_placement(event).await?;
        let mut records = Vec::new();
        for partition in placement.partitions(event) {
            if !matches!(partition, Partition::Checkouts { .. }) {
                continue;
            }
            match self.query(partition, Query::Records, Freshness::Linearizable).await? {
                Answer::Records(views) => records.extend(views),
                other => return unexpected(other),
            }
        }
        Ok(records)
    }

    /// Reservations that use a promotion now, linearizable.
    pub async fn promotion_uses(&self, event: EventId, code: PromotionCode) -> Result<Vec<ReservationId>, ClientError> {
        match self.query(Partition::Promotion { event, code }, Query::PromotionUses, Freshness::Linearizable).await? {
            Answer::PromotionUses(uses) => Ok(uses),
            other => unexpected(other),
        }
    }

    /// Every partition of an event.
    pub async fn partitions(&self, event: EventId) -> Result<Vec<Partition>, ClientError> {
        Ok(self.router.event_placement(event).await?.partitions(event))
    }

    /// At most `max` facts of a partition after a position, in order, linearizable.
    pub async fn feed(&self, partition: Partition, after: u64, max: u32) -> Result<Vec<FeedEntry>, ClientError> {
        match self.query(partition, Query::Feed { after, max }, Freshness::Linearizable).await? {
            Answer::Feed(facts) => Ok(facts),
            other => unexpected(other),
        }
    }

    /// A consumer has stored a partition's feed up to here, inclusive; the store forgets it.
    pub async fn ack_feed(&self, partition: Partition, upto: u64) -> Result<(), ClientError> {
        self.submit(partition, Command::Manage(Manage::AckFeed { upto })).await.map(|_| ())
    }

    /// Closes, reopens or cancels an event, in the catalogue and in every bucket. Safe to repeat.
    pub async fn set_status(&self, event: EventId, status: EventStatus) -> Result<(), PublishError> {
        self.change_status(event, Meta::SetStatus { event, status }).await
    }
}
