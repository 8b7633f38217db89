//! What a fan is told: one shape for joining, polling and sockets.

use crate::inventory::EventGate;
use crate::rooms::{Phase, View};
use crate::store::{PassRecord, Standing, Visit};
use domain::ids::ReservationId;
use domain::time::WallMs;
use serde::Serialize;

/// Where a fan stands, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// The sale has not started.
    PreSale,
    /// In line.
    Waiting,
    /// In line, but so far back that the seats left will probably not suffice.
    Unlikely,
    /// Let in: `token` opens a checkout for `expires_in` seconds.
    Admitted,
    /// Inside, with seats held or bought.
    Checkout,
    /// The pass ran out unused. Who joins again goes first, once.
    Expired,
    /// Not in the queue: join.
    Gone,
    /// No seat is left, and none is in anybody's hold.
    SoldOut,
    /// The event is not on sale any more.
    Closed,
}

impl State {
    /// Nothing more will come.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::SoldOut | Self::Closed)
    }

    /// Waiting for more makes sense.
    pub(crate) fn is_waiting(self) -> bool {
        matches!(self, Self::PreSale | Self::Waiting | Self::Unlikely)
    }

    fn message(self) -> &'static str {
        match self {
            Self::PreSale => "The sale has not started. You are in the waiting room; keep this page open.",
            Self::Waiting => "You are in line. Your place is kept if you reload or change device.",
            Self::Unlikely => "You are in line, but there are more fans before you than seats left.",
            Self::Admitted => "It is your turn. Choose your seats before your pass runs out.",
            Self::Checkout => "You are in checkout.",
            Self::Expired => "Your pass ran out. Join again: you go first, once.",
            Self::Gone => "You are not in the queue. Join to get a place.",
            Self::SoldOut => "Sold out. The queue is closed.",
            Self::Closed => "This event is not on sale. The queue is closed.",
        }
    }
}

/// The answer. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Answer {
    pub(crate) session: String,
    pub(crate) state: State,
    /// 1 is next; 0 is inside; null where there is no place (yet).
    pub(crate) position: Option<u64>,
    pub(crate) ahead: Option<u64>,
    /// Seconds until one's turn at the present rate; null while that cannot be said.
    pub(crate) estimated_wait: Option<u64>,
    /// Fans let in a minute, lately.
    pub(crate) release_rate: f64,
    /// The pass.
    pub(crate) token: Option<String>,
    /// How long the pass, or the hold, still lasts.
    pub(crate) expires_in: Option<u64>,
    /// In checkout: the fan's reservation, so that one who lost the answer to the hold finds it from any device. It is a
    /// name and opens nothing: the buy plane shows it to its owner's login only.
    pub(crate) reservation_id: Option<ReservationId>,
    /// How long until the sale starts; 0 once it has.
    pub(crate) sale_starts_in: u64,
    pub(crate) message: &'static str,
}

impl Answer {
    fn new(session: String, state: State, sale_starts_in: u64) -> Self {
        Self {
            session,
            state,
            position: None,
            ahead: None,
            estimated_wait: None,
            release_rate: 0.0,
            token: None,
            expires_in: None,
            reservation_id: None,
            sale_starts_in,
            message: state.message(),
        }
    }

    /// What can be said without asking Redis: that waiting is over for everybody.
    pub(crate) fn over(view: &View, session: &str) -> Option<Self> {
        match view.phase() {
            Phase::Open => None,
            Phase::SoldOut => Some(Self::new(session.to_owned(), State::SoldOut, 0)),
            Phase::Closed => Some(Self::new(session.to_owned(), State::Closed, 0)),
        }
    }

    /// What this visit means to the fan; `sign` makes the pass. `None` if there was no room to wait.
    pub(crate) fn of(
        view: &View,
        visit: &Visit,
        session: &str,
        sign: impl FnOnce(&PassRecord) -> String,
    ) -> Option<Self> {
        let starts_in = until(view.gate.on_sale_at, visit.now);
        let with = |state| Self::new(session.to_owned(), state, starts_in);
        Some(match &visit.standing {
            Standing::Full => return None,
            Standing::Gone => with(State::Gone),
            Standing::Expired => with(State::Expired),
            Standing::Drawing { .. } => with(State::PreSale),
            Standing::Inside { until: end, pass, reservation } => {
                let (state, token) = match (reservation, pass) {
                    (None, Some(record)) => (State::Admitted, Some(sign(record))),
                    _ => (State::Checkout, None),
                };
                Self {
                    position: Some(0),
                    ahead: Some(0),
                    estimated_wait: Some(0),
                    token,
                    expires_in: Some(until(*end, visit.now)),
                    reservation_id: *reservation,
                    ..with(state)
                }
            }
            Standing::Waiting { ahead, per_second } => {
                let rate = per_second.max(0.0);
                Self {
                    position: Some(ahead + 1),
                    ahead: Some(*ahead),
                    estimated_wait: estimate(*ahead, rate, starts_in),
                    release_rate: (rate * 600.0).round() / 10.0,
                    ..with(waiting(view, &view.gate, *ahead, visit.now))
                }
            }
        })
    }
}

fn waiting(view: &View, gate: &EventGate, ahead: u64, now: WallMs) -> State {
    if now < gate.on_sale_at {
        return State::PreSale;
    }
    // Every fan before this one may take a seat; those held now may come back.
    match view.stock {
        Some(stock) if ahead >= u64::from(stock.free) + u64::from(stock.held) => State::Unlikely,
        _ => State::Waiting,
    }
}

fn estimate(ahead: u64, per_second: f64, starts_in: u64) -> Option<u64> {
    // Slower than one fan in a quarter of an hour is no rate to promise anything by.
    if per_second < 1.0 / 900.0 {
        return None;
    }
    Some(starts_in.saturating_add(((ahead + 1) as f64 / per_second).ceil() as u64))
}

/// Whole seconds from `now` to `then`, rounded up; 0 if it is past.
fn until(then: WallMs, now: WallMs) -> u64 {
    then.0.saturating_sub(now.0).div_ceil(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{GateStatus, Mode, Stock};
    use domain::ids::EventId;

    fn view(free: u32, held: u32) -> View {
        let gate = EventGate {
            event: EventId(1),
            on_sale_at: WallMs(10_000),
            capacity: 1,
            mode: Mode::Fifo,
            status: GateStatus::Open,
        };
        View { gate, stock: Some(Stock { free, held, total: 100 }) }
    }

    fn told(view: &View, standing: Standing, now: u64) -> Answer {
        Answer::of(view, &Visit { standing, now: WallMs(now) }, "s", |record| record.jti.to_string()).unwrap()
    }

    #[test]
    fn a_fan_in_line_is_told_place_and_wait() {
        let answer = told(&view(50, 0), Standing::Waiting { ahead: 9, per_second: 2.0 }, 20_000);
        assert_eq!((answer.state, answer.position, answer.ahead), (State::Waiting, Some(10), Some(9)));
        assert_eq!((answer.estimated_wait, answer.release_rate), (Some(5), 120.0));
        assert_eq!(told(&view(50, 0), Standing::Waiting { ahead: 9, per_second: 0.0 }, 20_000).estimated_wait, None);
    }

    #[test]
    fn a_fan_whom_the_stock_cannot_reach_is_told() {
        let waiting = |ahead| Standing::Waiting { ahead, per_second: 1.0 };
        assert_eq!(told(&view(5, 5), waiting(9), 20_000).state, State::Waiting);
        assert_eq!(told(&view(5, 5), waiting(10), 20_000).state, State::Unlikely);
    }

    #[test]
    fn before_the_sale_nobody_waits_in_vain() {
        let answer = told(&view(5, 5), Standing::Waiting { ahead: 80, per_second: 0.0 }, 8_500);
        assert_eq!((answer.state, answer.sale_starts_in), (State::PreSale, 2));
        assert_eq!(told(&view(5, 5), Standing::Drawing { joined: 3 }, 8_500).position, None);
    }

    #[test]
    fn a_pass_is_given_until_seats_are_held() {
        let pass = Some(PassRecord { jti: "j".parse().unwrap(), iat: 1, exp: 2 });
        let inside = Standing::Inside { until: WallMs(30_000), pass: pass.clone(), reservation: None };
        let answer = told(&view(5, 5), inside, 20_000);
        assert_eq!((answer.state, answer.token.as_deref(), answer.expires_in), (State::Admitted, Some("j"), Some(10)));
        assert_eq!(answer.reservation_id, None);
        let held = Standing::Inside { until: WallMs(30_000), pass, reservation: "1-0-0-1".parse().ok() };
        let answer = told(&view(5, 5), held, 20_000);
        assert_eq!((answer.state, answer.token), (State::Checkout, None));
        assert_eq!(serde_json::json!(answer.reservation_id), "1-0-0-1");
    }

    #[test]
    fn sold_out_is_for_everybody() {
        assert_eq!(Answer::over(&view(0, 0), "s").unwrap().state, State::SoldOut);
        assert_eq!(Answer::over(&view(0, 1), "s"), None);
    }
}
