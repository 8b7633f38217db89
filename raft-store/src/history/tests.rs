//! The history of a few seats: in order, once, over restarts, gaps and a queue that was full.

use super::*;
use domain::ids::Bucket;
use std::time::Duration;

const EVENT: EventId = EventId(1);
const SECTION: SectionId = SectionId(2);

fn change(seat: u32, sequence: u64, kind: SeatChangeKind) -> SeatChange {
    let reservation = ReservationId { event: EVENT, bucket: Bucket(0), incarnation: 0, sequence };
    SeatChange { event: EVENT, section: SECTION, seat: SeatIndex(seat), reservation, kind }
}

fn applied(index: u64, seats: Vec<SeatChange>) -> Note {
    Note::Applied { group: GroupId(1), index, at: WallMs(index * 10), seats }
}

fn found(index: u64, owned: Vec<SeatChange>) -> Note {
    Note::Found { group: GroupId(1), index, owned, after: None }
}

/// Notes these one at a time, so that each is a batch of its own.
async fn tell(history: &History, notes: impl IntoIterator<Item = Note>) {
    for note in notes {
        assert!(history.notes.send(note).await.is_ok());
        history.settle().await;
    }
}

fn of(history: &History, seat: u32) -> Vec<(u64, Option<u64>, SeatChangeKind)> {
    let changes = history.seat(EVENT, SECTION, SeatIndex(seat)).unwrap();
    changes.changes.iter().map(|change| (change.index, change.at.map(|at| at.0), change.kind)).collect()
}

/// sled's lock is free once the writing task has seen that every handle is gone.
async fn reopen(folder: &Path) -> History {
    for _ in 0..500 {
        if let Ok(history) = History::open(folder).await {
            return history;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the index cannot be opened again");
}

#[tokio::test]
async fn a_seats_changes_come_in_order_once_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let history = History::open(folder.path()).await.unwrap();
    let held = vec![change(5, 7, SeatChangeKind::Held), change(6, 7, SeatChangeKind::Held)];
    let sold = vec![change(5, 7, SeatChangeKind::Sold)];
    tell(&history, [applied(1, held.clone()), applied(300, sold.clone())]).await;
    drop(history);

    // The log is applied again from the snapshot on, and this time the entries come together.
    let history = reopen(folder.path()).await;
    for note in [applied(1, held), applied(300, sold)] {
        assert!(history.notes.try_send(note).is_ok());
    }
    history.settle().await;
    let expected = [(1, Some(10), SeatChangeKind::Held), (300, Some(3_000), SeatChangeKind::Sold)];
    assert_eq!(of(&history, 5), expected);
    assert_eq!(of(&history, 6), expected[..1]);
    assert_eq!(of(&history, 7), []);
}

#[tokio::test]
async fn seats_of_far_blocks_and_other_sections_are_apart() {
    let folder = tempfile::tempdir().unwrap();
    let history = History::open(folder.path()).await.unwrap();
    let elsewhere = SeatChange { section: SectionId(3), ..change(5, 9, SeatChangeKind::Held) };
    let far = change(5 + 256, 8, SeatChangeKind::Blocked);
    tell(&history, [applied(1, vec![change(5, 7, SeatChangeKind::Held), elsewhere, far])]).await;
    assert_eq!(of(&history, 5), [(1, Some(10), SeatChangeKind::Held)]);
    assert_eq!(of(&history, 5 + 256), [(1, Some(10), SeatChangeKind::Blocked)]);
    assert_eq!(history.seat(EVENT, SectionId(3), SeatIndex(5)).unwrap().changes[0].reservation.sequence, 9);
}

#[tokio::test]
async fn what_a_snapshot_skipped_is_entered_as_found() {
    let folder = tempfile::tempdir().unwrap();
    let history = History::open(folder.path()).await.unwrap();
    let notes = [
        applied(1, vec![change(5, 7, SeatChangeKind::Held)]),
        found(50, vec![change(5, 7, SeatChangeKind::Held), change(6, 8, SeatChangeKind::Sold)]),
        // Older than what is known: says nothing new.
        found(40, vec![change(6, 3, SeatChangeKind::Held)]),
    ];
    tell(&history, notes).await;
    assert_eq!(of(&history, 5), [(1, Some(10), SeatChangeKind::Held)]);
    assert_eq!(of(&history, 6), [(50, None, SeatChangeKind::Sold)]);
    // What happened between the two entries is not known, and said to be so; what passed without a change is no gap.
    tell(&history, [applied(51, Vec::new()), found(51, Vec::new())]).await;
    assert_eq!(coverage(&history), [Coverage { group: GroupId(1), upto: 51, gaps: vec![(1, 50)] }]);
}

fn coverage(history: &History) -> Vec<Coverage> {
    history.seat(EVENT, SECTION, SeatIndex(5)).unwrap().coverage
}

#[tokio::test]
async fn a_group_whose_note_found_no_room_is_looked_at_once_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let index = Index::open(folder.path()).unwrap();
    // Nobody takes the notes yet.
    let (notes, received) = mpsc::channel(WAITING);
    let history = History { index: index.clone(), notes, missed: Arc::default() };
    for number in 0..=WAITING as u64 {
        history.note(GroupId(1), number + 1, applied(number + 1, vec![change(5, number, SeatChangeKind::Held)]));
    }
    assert_eq!(history.catches_up(GroupId(1)), None, "the queue is full");
    spawn(write(index, received));
    history.settle().await;
    assert_eq!(of(&history, 5).len(), WAITING);
    assert_eq!(history.catches_up(GroupId(2)), None, "nothing was missed of it");
    let first = WAITING as u64 + 1;
    assert_eq!(history.catches_up(GroupId(1)), Some(first));
    assert_eq!(history.catches_up(GroupId(1)), None, "once");
    // Entries went by in between, and what was missed before them is a gap all the same.
    let late = Note::Found { group: GroupId(1), index: first + 9, owned: Vec::new(), after: Some(first - 1) };
    tell(&history, [applied(first + 5, Vec::new()), late]).await;
    assert_eq!(
        coverage(&history),
        [Coverage { group: GroupId(1), upto: first + 9, gaps: vec![(first - 1, first + 9)] }]
    );
}
