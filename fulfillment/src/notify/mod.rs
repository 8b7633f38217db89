//! Messages to fans: written by the ledger, worded here, handed to a sink; each is retried on its own. A fan whose address
//! is not known gets no mail: the message stays with the fan's account, and no address is ever made up.

mod sink;
mod wording;

pub use sink::{FileSink, Mail, Sink};

use crate::step::{Done, StepError};
use domain::ids::BookingId;
use domain::time::WallMs;
use ledger::Ledger;
use ledger::notices::Notice;
use std::collections::BTreeMap;
use wording::Wording;

/// Messages sent in one pass.
const BATCH: u32 = 100;

/// Sends messages; remembers the titles of events.
#[derive(Debug, Default)]
pub struct Notifier {
    titles: BTreeMap<u64, String>,
}

impl Notifier {
    /// Send what is due. One that fails, or that cannot even be worded, waits on its own and stops no other.
    pub async fn send<L: Ledger, S: Sink>(&mut self, ledger: &L, sink: &S, now: WallMs) -> Done {
        let due = ledger.notices_due(now, BATCH).await?;
        let mut sent = 0;
        for notice in due {
            let Some(to) = notice.email.clone() else {
                ledger.notice_sent(notice.id, now).await?;
                continue;
            };
            let handed_over = match self.compose(ledger, &notice, to).await {
                Ok(mail) => sink.send(&mail).await,
                // The trouble of all of them, not of this one.
                Err(StepError::Ledger(error)) if error.is_unavailable() => return Err(error.into()),
                Err(error) => Err(error.to_string()),
            };
            match handed_over {
                Ok(()) => {
                    ledger.notice_sent(notice.id, now).await?;
                    sent += 1;
                }
                Err(why) => {
                    tracing::warn!(notice = notice.id, kind = notice.kind, why, "a message could not be sent");
                    ledger.notice_failed(notice.id, &why, now).await?;
                }
            }
        }
        Ok(sent)
    }

    async fn compose<L: Ledger>(&mut self, ledger: &L, notice: &Notice, to: String) -> Result<Mail, StepError> {
        let event = notice.payload["event"].as_u64().unwrap_or_default();
        if !self.titles.contains_key(&event) {
            let events = ledger.events().await?;
            self.titles = events.into_iter().map(|record| (u64::from(record.id.0), record.title)).collect();
        }
        let booking = notice.payload["booking"].as_str().and_then(|text| text.parse::<BookingId>().ok());
        let tickets = match booking {
            Some(booking) => ledger.tickets_of_booking(booking).await?,
            None => Vec::new(),
        };
        let title = self.titles.get(&event).map_or("your event", String::as_str);
        let Wording { subject, body } = wording::of(notice, title, &tickets);
        Ok(Mail { to, subject, body, message: notice.id })
    }
}
