//! Who asks for which seats: a pure function of the attempt's number, so that every contender gets the same work.

/// A hall: every section has as many seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hall {
    /// Sections.
    pub sections: u16,
    /// Seats in each; even.
    pub seats: u32,
}

/// A seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its section.
    pub section: u16,
    /// Its number there.
    pub seat: u32,
}

/// One fan's wish for two seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Unique in a sale: the fan, the key and the pass are made of it.
    pub number: u64,
    /// In ascending order, as whoever locks them must.
    pub seats: [Place; 2],
}

/// What the crowd is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Every attempt wants seats that nobody else wants.
    Cold,
    /// Four of five attempts want one of the best seats, which are one in a hundred.
    Hot,
    /// Every attempt wants one of the best seats, all of which are gone.
    Gone,
    /// As cold, but the two seats are in neighbouring sections.
    Across,
}

/// One in so many seats is among the best.
const BEST: u64 = 100;
/// One in so many attempts of a hot crowd is content with another seat.
const CONTENT: u64 = 5;

impl Hall {
    /// Pairs of neighbouring seats.
    pub fn pairs(self) -> u64 {
        u64::from(self.sections) * u64::from(self.seats / 2)
    }

    /// The best pairs; they lie scattered, as the best seats of every section do.
    pub fn best_pairs(self) -> u64 {
        (self.pairs() / BEST).max(1)
    }

    /// The pair of this number, the sections taken in turn.
    fn pair(self, number: u64) -> [Place; 2] {
        let sections = u64::from(self.sections);
        let section = (number % sections) as u16;
        let seat = (number / sections * 2) as u32;
        [Place { section, seat }, Place { section, seat: seat + 1 }]
    }

    /// One seat in each of two neighbouring sections.
    fn pair_across(self, number: u64) -> [Place; 2] {
        let doubles = u64::from(self.sections / 2);
        let (section, seat) = ((number % doubles * 2) as u16, (number / doubles) as u32);
        [Place { section, seat }, Place { section: section + 1, seat }]
    }
}

impl Workload {
    /// The attempt of this number; `None` once the hall has no seats that such a crowd would ask for.
    pub fn attempt(self, hall: Hall, number: u64) -> Option<Attempt> {
        let seats = match self {
            Self::Cold => (number < hall.pairs()).then(|| hall.pair(number))?,
            Self::Across => {
                let pairs = u64::from(hall.sections / 2) * u64::from(hall.seats);
                (number < pairs).then(|| hall.pair_across(number))?
            }
            Self::Hot if number.is_multiple_of(CONTENT) => {
                let other = hall.best_pairs() + number / CONTENT;
                (other < hall.pairs()).then(|| hall.pair(other))?
            }
            Self::Hot | Self::Gone => hall.pair(scatter(number) % hall.best_pairs()),
        };
        Some(Attempt { number, seats })
    }
}

/// Spreads consecutive numbers evenly (the finaliser of SplitMix64).
fn scatter(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const HALL: Hall = Hall { sections: 4, seats: 100 };

    fn all(workload: Workload) -> Vec<Attempt> {
        (0..).map_while(|number| workload.attempt(HALL, number)).collect()
    }

    #[test]
    fn a_cold_crowd_wants_every_seat_once() {
        for workload in [Workload::Cold, Workload::Across] {
            let wanted: Vec<Place> = all(workload).iter().flat_map(|attempt| attempt.seats).collect();
            assert_eq!(wanted.len(), 400, "{workload:?}");
            assert_eq!(wanted.iter().collect::<BTreeSet<_>>().len(), 400, "{workload:?}");
            assert!(wanted.iter().all(|place| place.section < 4 && place.seat < 100), "{workload:?}");
        }
    }

    #[test]
    fn a_hot_crowd_wants_the_best_seats_four_times_of_five() {
        let best: BTreeSet<_> = (0..HALL.best_pairs()).flat_map(|pair| HALL.pair(pair)).collect();
        let attempts = all(Workload::Hot);
        let hot = attempts.iter().filter(|attempt| best.contains(&attempt.seats[0])).count();
        assert_eq!(hot * 5, attempts.len() / 5 * 5 * 4);
        let others: Vec<_> = attempts.iter().filter(|attempt| !best.contains(&attempt.seats[0])).collect();
        assert_eq!(others.iter().map(|attempt| attempt.seats[0]).collect::<BTreeSet<_>>().len(), others.len());
    }

    #[test]
    fn seats_of_a_wish_are_in_ascending_order() {
        for workload in [Workload::Cold, Workload::Hot, Workload::Gone, Workload::Across] {
            for number in 0..50 {
                let attempt = workload.attempt(HALL, number).expect("a large hall");
                assert!(attempt.seats[0] < attempt.seats[1], "{workload:?} {attempt:?}");
            }
        }
    }
}
