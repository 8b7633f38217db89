//! What a gate thinks of a code, as a pure function of what the ledger knows and the clock says.
//!
//! The order of checks is the rule: form, ticket known, code valid, revoked, already used. A guessed
//! code thus never learns whether, when or where the ticket was used.

use domain::ticket_code::{CodeRefused, TicketCode, TicketSecret};
use domain::time::WallMs;

/// A ticket as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// What its codes are made with.
    pub secret: TicketSecret,
    /// Section, row and seat in words.
    pub label: String,
    /// The event's title.
    pub title: String,
    /// Until when the event's manifest is good.
    pub expires_at: WallMs,
    /// Not to be admitted.
    pub revoked: bool,
    /// Its one admission, if there was one.
    pub used: Option<Use>,
}

/// An admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The gate that let the person in.
    pub gate: String,
    /// When.
    pub at: WallMs,
}

/// Why a person is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No manifest had this ticket.
    Unknown,
    /// The event's manifest has run out, so nothing in it is believed.
    ManifestExpired,
    /// The code is forged or from another time.
    Code(CodeRefused),
    /// The ticket was refunded, exchanged or withdrawn.
    Revoked,
    /// Somebody is already in on it.
    AlreadyUsed(Use),
}

/// Judge a well-formed code. `Ok` means "admit, if the ledger takes the entry": the insert has the last word.
pub fn judge<'k>(code: &TicketCode, known: Option<&'k Known>, now: WallMs) -> Result<&'k Known, Refusal> {
    let known = known.ok_or(Refusal::Unknown)?;
    if known.expires_at <= now {
        return Err(Refusal::ManifestExpired);
    }
    code.check(&known.secret, now).map_err(Refusal::Code)?;
    if known.revoked {
        return Err(Refusal::Revoked);
    }
    match &known.used {
        Some(used) => Err(Refusal::AlreadyUsed(used.clone())),
        None => Ok(known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::TicketId;

    const NOW: WallMs = WallMs(1_764_000_007_000);

    fn known() -> Known {
        Known {
            secret: TicketSecret([1; 32]),
            label: "Stalls, row A, seat 1".to_owned(),
            title: "Winter concert".to_owned(),
            expires_at: WallMs(NOW.0 + 1),
            revoked: false,
            used: None,
        }
    }

    fn used() -> Option<Use> {
        Some(Use { gate: "north".to_owned(), at: WallMs(5) })
    }

    /// Whoever used what, and whatever else is wrong, the earlier check answers.
    #[test]
    fn the_first_check_that_fails_answers() {
        let good = TicketCode::at(TicketId(1), &TicketSecret([1; 32]), NOW);
        let forged = TicketCode::at(TicketId(1), &TicketSecret([2; 32]), NOW);
        let old = TicketCode::at(TicketId(1), &TicketSecret([1; 32]), WallMs(NOW.0 - 60_000));
        let worst = Known { expires_at: NOW, revoked: true, used: used(), ..known() };
        assert_eq!(judge(&forged, None, NOW), Err(Refusal::Unknown));
        assert_eq!(judge(&forged, Some(&worst), NOW), Err(Refusal::ManifestExpired));
        let bad = Known { revoked: true, used: used(), ..known() };
        assert_eq!(judge(&forged, Some(&bad), NOW), Err(Refusal::Code(CodeRefused::Forged)));
        assert_eq!(judge(&old, Some(&bad), NOW), Err(Refusal::Code(CodeRefused::WrongTime)));
        assert_eq!(judge(&good, Some(&bad), NOW), Err(Refusal::Revoked));
        let second = Known { used: used(), ..known() };
        assert_eq!(judge(&good, Some(&second), NOW), Err(Refusal::AlreadyUsed(used().unwrap())));
        assert_eq!(judge(&good, Some(&known()), NOW), Ok(&known()));
    }
}
