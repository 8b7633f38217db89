//! Who owned a seat, and since when: every node is asked for what it has indexed, and the answers become one story. A node
//! that was away may know some changes only from a snapshot; another one knows when they happened.

use super::Client;
use super::router::Router;
use crate::history::{Coverage, Ownership, SeatHistory};
use crate::runtime;
use crate::wire;
use crate::wire::frames::{HistoryRequest, answer, ask};
use domain::ids::{EventId, GroupId, ReservationId, SeatIndex, SectionId};
use domain::inventory::SeatChangeKind;
use domain::time::WallMs;
use std::collections::BTreeMap;

/// What the nodes told about a seat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldHistory {
    /// Its changes, oldest first.
    pub changes: Vec<Ownership>,
    /// Entries that no node that answered has indexed: what happened in them is not told.
    pub gaps: Vec<Gap>,
    /// How many nodes answered.
    pub answered: usize,
    /// Those that did not, and why.
    pub silent: Vec<String>,
}

/// Entries of a group that nobody has: `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The group.
    pub group: GroupId,
    /// The first of them.
    pub first: u64,
    /// The last of them.
    pub last: u64,
}

impl Client {
    /// Asks every known node; what any of them knows is in the answer.
    pub async fn history(&self, event: EventId, section: SectionId, seat: SeatIndex) -> ToldHistory {
        // Learn of nodes that are not among the endpoints, if the meta group answers in time.
        let patience = self.router.config.attempt_timeout();
        let _ = runtime::timeout(patience, self.router.refresh_placement()).await;
        let addresses = self.router.addresses();
        let asked = addresses.iter().map(|address| ask_one(&self.router, address, event, section, seat));
        let mut told = ToldHistory::default();
        let (mut known, mut coverage) = (Vec::new(), Vec::new());
        for (address, answer) in addresses.iter().zip(futures::future::join_all(asked).await) {
            match answer {
                Ok(history) => {
                    told.answered += 1;
                    known.push(history.changes);
                    coverage.extend(history.coverage);
                }
                Err(reason) => told.silent.push(format!("{address}: {reason}")),
            }
        }
        told.changes = merged(known);
        told.gaps = missing(coverage);
        told
    }
}

async fn ask_one(
    router: &Router,
    address: &str,
    event: EventId,
    section: SectionId,
    seat: SeatIndex,
) -> Result<SeatHistory, String> {
    let request = HistoryRequest { event: event.0, section: section.0.into(), seat: seat.0 };
    let link = router.link(address);
    let asked = link.ask(GroupId::META.0, ask::What::History(request));
    match runtime::timeout(router.config.attempt_timeout(), asked).await {
        Some(Ok(answer::What::History(bytes))) => {
            wire::decode("seat history", &bytes).map_err(|error| error.to_string())
        }
        Some(Ok(answer::What::Unavailable(unavailable))) => Err(unavailable.reason),
        Some(Ok(other)) => Err(format!("{other:?}").chars().take(80).collect()),
        Some(Err(error)) => Err(format!("{error:?}")),
        None => Err("no answer in time".into()),
    }
}

/// What every index of a group lacks. The meta group has no seats.
fn missing(coverage: Vec<Coverage>) -> Vec<Gap> {
    let mut of_groups: BTreeMap<GroupId, Vec<Coverage>> = BTreeMap::new();
    for covered in coverage.into_iter().filter(|covered| covered.group != GroupId::META) {
        of_groups.entry(covered.group).or_default().push(covered);
    }
    let mut gaps = Vec::new();
    for (group, indexes) in of_groups {
        let newest = indexes.iter().map(|covered| covered.upto).max().unwrap_or(0);
        let mut missing = vec![(0, newest)];
        for covered in indexes {
            let behind = (covered.upto < newest).then_some((covered.upto, newest));
            let lacks: Vec<(u64, u64)> = covered.gaps.into_iter().chain(behind).collect();
            missing = missing
                .iter()
                .flat_map(|one| lacks.iter().map(|other| (one.0.max(other.0), one.1.min(other.1))))
                .filter(|(after, upto)| after < upto)
                .collect();
        }
        gaps.extend(missing.into_iter().map(|(after, last)| Gap { group, first: after + 1, last }));
    }
    gaps
}

/// One change, whoever tells it. A change that a node only found in a snapshot stands at that snapshot's entry, so it is
/// dropped where another node knows the change itself.
fn merged(known: Vec<Vec<Ownership>>) -> Vec<Ownership> {
    type Change = (ReservationId, SeatChangeKind);
    let mut witnessed: BTreeMap<(GroupId, u64, Change), Ownership> = BTreeMap::new();
    let mut found: BTreeMap<Change, Ownership> = BTreeMap::new();
    for change in known.into_iter().flatten() {
        let what = (change.reservation, change.kind);
        if change.at.is_some() {
            witnessed.insert((change.group, change.index, what), change);
        } else {
            let earliest = found.entry(what).or_insert(change);
            if change.index < earliest.index {
                *earliest = change;
            }
        }
    }
    found.retain(|what, _| !witnessed.keys().any(|(_, _, seen)| seen == what));
    let mut changes: Vec<Ownership> = witnessed.into_values().chain(found.into_values()).collect();
    changes.sort_by_key(|change| (change.group, change.index));
    // Between groups only time compares; a change without one came after what its own group had before.
    let mut last: BTreeMap<GroupId, WallMs> = BTreeMap::new();
    let mut placed: Vec<(WallMs, Ownership)> = Vec::new();
    for change in changes {
        let at = last.entry(change.group).or_default();
        *at = change.at.unwrap_or(*at).max(*at);
        placed.push((*at, change));
    }
    placed.sort_by_key(|(at, change)| (*at, change.group, change.index));
    placed.into_iter().map(|(_, change)| change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::Bucket;

    fn change(group: u32, index: u64, at: Option<u64>, sequence: u64, kind: SeatChangeKind) -> Ownership {
        let reservation = ReservationId { event: EventId(1), bucket: Bucket(0), incarnation: 0, sequence };
        Ownership { group: GroupId(group), index, at: at.map(WallMs), reservation, kind }
    }

    #[test]
    fn nodes_that_know_more_complete_the_others_and_moves_are_in_order_of_time() {
        use SeatChangeKind::{Held, Released, Sold};
        // The section lived in group 2, then in group 1, whose entries are fewer.
        let whole = vec![
            change(1, 3, Some(300), 2, Held),
            change(1, 4, Some(400), 2, Sold),
            change(2, 90, Some(100), 1, Held),
            change(2, 95, Some(200), 1, Released),
        ];
        // This node was away and found the sale in a snapshot.
        let late = vec![change(1, 50, None, 2, Sold)];
        let told = merged(vec![late.clone(), whole.clone(), whole[2..].to_vec()]);
        assert_eq!(told.iter().map(|c| (c.group.0, c.index)).collect::<Vec<_>>(), [(2, 90), (2, 95), (1, 3), (1, 4)]);
        assert_eq!(merged(vec![late.clone()]), late);
    }

    #[test]
    fn only_what_every_index_lacks_is_missing() {
        let covered = |group, upto, gaps: &[(u64, u64)]| Coverage { group: GroupId(group), upto, gaps: gaps.to_vec() };
        let gap = |group, first, last| Gap { group: GroupId(group), first, last };
        assert_eq!(missing(vec![covered(1, 90, &[]), covered(1, 80, &[(0, 50)])]), []);
        assert_eq!(
            missing(vec![covered(1, 90, &[(0, 70)]), covered(1, 90, &[(10, 50), (60, 80)])]),
            [gap(1, 11, 50), gap(1, 61, 70)]
        );
        // One that is behind knows nothing of the newest, and another one does not know the oldest.
        assert_eq!(missing(vec![covered(2, 40, &[]), covered(2, 90, &[(0, 60)])]), [gap(2, 41, 60)]);
        assert_eq!(missing(vec![covered(0, 90, &[(0, 60)])]), [], "the meta group has no seats");
        assert_eq!(missing(Vec::new()), []);
    }
}
