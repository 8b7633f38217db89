//! What an audit found: a verdict for each rule, and the numbers that a person asks for first.

use std::collections::BTreeMap;
use std::fmt;

/// The rules of the design that an audit can see, by their numbers there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// 1: a seat has at most one live owner, in the store and in the ledger alike.
    OneOwner,
    /// 3: a hold is all or nothing, its promotion use too.
    WholeCarts,
    /// 4: money moves only on the provider's word, with matching reference, amount and currency.
    ProvidersWord,
    /// 5: a reservation ends exactly one way, and the ledger says the same.
    OneEnd,
    /// 6: the price quoted is the price charged.
    QuotedPrice,
    /// 7: what was delivered twice was done once: one ticket a seat, one entry a ticket.
    OnceOnly,
    /// 9: what was acknowledged is still there.
    Acknowledged,
    /// 10: every captured payment ends in tickets or a full refund.
    TicketsOrRefund,
    /// Limits and caps: seats a user, uses of a promotion.
    Limits,
}

impl Rule {
    /// All, in order.
    pub const ALL: [Self; 9] = [
        Self::OneOwner,
        Self::WholeCarts,
        Self::ProvidersWord,
        Self::OneEnd,
        Self::QuotedPrice,
        Self::OnceOnly,
        Self::Acknowledged,
        Self::TicketsOrRefund,
        Self::Limits,
    ];

    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Self::OneOwner => "a seat has at most one live owner (store = ledger)",
            Self::WholeCarts => "a cart is held whole or not at all",
            Self::ProvidersWord => "money moved only on the provider's word, to the cent",
            Self::OneEnd => "a reservation ends exactly one way (store = ledger)",
            Self::QuotedPrice => "the price quoted is the price charged",
            Self::OnceOnly => "one ticket a seat, one entry a ticket, whatever came twice",
            Self::Acknowledged => "every hold that was acknowledged is still known",
            Self::TicketsOrRefund => "every captured payment became tickets or went back",
            Self::Limits => "limits and promotion caps were kept",
        }
    }
}

/// What became of one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// How many things were checked.
    pub checked: u64,
    /// Each difference in words.
    pub broken: Vec<String>,
    /// What is on its way and not yet to be judged.
    pub pending: Vec<String>,
    /// Why it could not be checked, if it could not.
    pub skipped: Option<String>,
}

/// What a person asks for first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Seats and places on sale.
    pub capacity: u64,
    /// Seats sold.
    pub sold: u64,
    /// Seats in a checkout.
    pub held: u64,
    /// Reservations paid.
    pub paid: u64,
    /// Reservations that ran out.
    pub expired: u64,
    /// Reservations given up.
    pub cancelled: u64,
    /// Payments whose money went back.
    pub refunded: u64,
    /// Valid tickets.
    pub tickets: u64,
    /// Entries at the gates.
    pub entries: u64,
}

/// The whole audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// By rule.
    pub verdicts: BTreeMap<Rule, Verdict>,
    /// In all events.
    pub numbers: Numbers,
}

impl Report {
    /// The verdict of a rule, to be written.
    pub fn of(&mut self, rule: Rule) -> &mut Verdict {
        self.verdicts.entry(rule).or_default()
    }

    /// Something was checked; `fault` says what is wrong, if it is.
    pub fn check(&mut self, rule: Rule, fault: Option<String>) {
        let verdict = self.of(rule);
        verdict.checked += 1;
        verdict.broken.extend(fault);
    }

    /// Nothing is wrong and nothing is in between.
    pub fn is_clean(&self) -> bool {
        self.verdicts.values().all(|verdict| verdict.broken.is_empty() && verdict.pending.is_empty())
    }

    /// How many differences stayed. What is still on its way when the patience ends is one, too: nothing may hang.
    pub fn faults(&self) -> usize {
        self.verdicts.values().map(|verdict| verdict.broken.len() + verdict.pending.len()).sum()
    }
}

/// How many differences of one rule are shown.
const SHOWN: usize = 8;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = &self.numbers;
        writeln!(f, "seats     {} on sale, {} sold, {} in checkouts", n.capacity, n.sold, n.held)?;
        writeln!(f, "checkouts {} paid, {} expired, {} cancelled", n.paid, n.expired, n.cancelled)?;
        writeln!(f, "money     {} payments refunded", n.refunded)?;
        writeln!(f, "tickets   {} valid, {} scanned in", n.tickets, n.entries)?;
        for rule in Rule::ALL {
            let Some(verdict) = self.verdicts.get(&rule) else { continue };
            let sign = match verdict {
                Verdict { skipped: Some(_), .. } => "–",
                _ if verdict.broken.is_empty() && verdict.pending.is_empty() => "✓",
                _ => "✗",
            };
            write!(f, "{sign} {}", rule.title())?;
            match &verdict.skipped {
                Some(why) => writeln!(f, ": not checked, {why}")?,
                None => writeln!(f, " ({} checked)", verdict.checked)?,
            }
            let faults: Vec<&String> = verdict.broken.iter().chain(&verdict.pending).collect();
            for fault in faults.iter().take(SHOWN) {
                writeln!(f, "    {fault}")?;
            }
            if faults.len() > SHOWN {
                writeln!(f, "    … and {} more", faults.len() - SHOWN)?;
            }
        }
        Ok(())
    }
}
