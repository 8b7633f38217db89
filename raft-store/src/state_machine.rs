//! openraft's state machine over the pure one: applies entries, answers from the applied state, makes and takes snapshots.

use crate::runtime::{Instant, now, run_blocking};
use crate::snapshot::SnapshotStore;
use crate::types::{Applied, LogId, Snapshot, SnapshotData, SnapshotMeta, StoredMembership, TypeConfig};
use bytes::Bytes;
use domain::ids::{GroupId, Partition};
use domain::inventory::{Entry, Group, Outcome, SeatChange};
use futures::{Stream, TryStreamExt, stream};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::Notify;

/// Bytes of a state that are encoded at once, if its pieces are small.
const AT_ONCE: usize = 256 << 10;

/// An entry that has just been applied.
pub struct AppliedEntry<'a> {
    /// In which group.
    pub group: GroupId,
    /// Where.
    pub log_id: LogId,
    /// What.
    pub entry: &'a Entry,
    /// What came of it.
    pub outcomes: &'a [Outcome],
    /// Seats that changed hands.
    pub seats: &'a [SeatChange],
    /// The machine after it.
    pub machine: &'a Group,
}

/// Told of everything that is applied, in order and while apply waits; for the seat history and the simulation's checkers.
pub trait Observer: Send + Sync + 'static {
    /// An entry has been applied.
    fn applied(&self, applied: &AppliedEntry<'_>);
    /// An entry without commands has been passed.
    fn passed(&self, _group: GroupId, _log_id: LogId) {}
    /// The machine is now a snapshot's.
    fn installed(&self, group: GroupId, last: Option<LogId>, machine: &Group);
}

/// What is applied.
pub struct State {
    /// The pure machine.
    pub machine: Group,
    /// The last applied entry.
    pub applied: Option<LogId>,
    /// When the first entry of the newest term was applied here: the leader's stamps count from then.
    pub term_began: Option<(u64, Instant)>,
    /// Versions of the partitions that have one.
    pub versions: BTreeMap<Partition, u64>,
    /// Requests applied since the start, by partition; for the operator.
    pub served: BTreeMap<Partition, u64>,
    membership: StoredMembership,
}

struct Shared {
    group: GroupId,
    state: RwLock<State>,
    changed: Notify,
    snapshots: SnapshotStore,
    observers: Vec<Arc<dyn Observer>>,
}

/// The state machine of one group. Clones share it.
#[derive(Clone)]
pub struct StateMachine(Arc<Shared>);

impl StateMachine {
    /// Starts from the snapshot on disk, or empty.
    pub async fn open(group: GroupId, snapshots: SnapshotStore, observers: Vec<Arc<dyn Observer>>) -> io::Result<Self> {
        let mut state = State {
            machine: Group::new(group),
            applied: None,
            term_began: None,
            versions: BTreeMap::new(),
            served: BTreeMap::new(),
            membership: StoredMembership::default(),
        };
        if let Some(snapshot) = snapshots.load().await? {
            state.restore(&snapshot.meta, &snapshot.snapshot)?;
        }
        let shared = Shared { group, state: RwLock::new(state), changed: Notify::new(), snapshots, observers };
        for observer in &shared.observers {
            let state = shared.state.read().expect("not shared yet");
            observer.installed(group, state.applied, &state.machine);
        }
        Ok(Self(Arc::new(shared)))
    }

    /// The applied state. Hold it briefly: apply waits.
    pub fn state(&self) -> RwLockReadGuard<'_, State> {
        self.0.state.read().expect("a machine that panicked cannot go on")
    }

    /// The applied state as it is now. It shares its partitions with what goes on being applied, so it costs no more than a
    /// look.
    pub fn view(&self) -> View {
        let state = self.state();
        let meta = SnapshotMeta { last_log_id: state.applied, last_membership: state.membership.clone() };
        View { meta, machine: state.machine.clone() }
    }

    /// Resolves after the next change that follows this call.
    pub fn changed(&self) -> impl Future<Output = ()> + '_ {
        let mut notified = Box::pin(self.0.changed.notified());
        notified.as_mut().enable();
        notified
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.0.state.write().expect("a machine that panicked cannot go on")
    }

    fn apply_entry(
        &self,
        log_id: LogId,
        payload: EntryPayload<crate::types::Batch, u64, openraft::BasicNode>,
    ) -> Applied {
        let mut state = self.state_mut();
        state.applied = Some(log_id);
        let term = log_id.leader_id.term;
        if state.term_began.is_none_or(|(began, _)| began < term) {
            state.term_began = Some((term, now()));
        }
        if !matches!(payload, EntryPayload::Normal(_)) {
            self.0.observers.iter().for_each(|observer| observer.passed(self.0.group, log_id));
        }
        match payload {
            EntryPayload::Blank => Applied::default(),
            EntryPayload::Membership(membership) => {
                state.membership = StoredMembership::new(Some(log_id), membership);
                Applied::default()
            }
            EntryPayload::Normal(batch) => {
                let outcomes = state.machine.apply(&batch.0);
                for request in &batch.0.requests {
                    state.count(&request.partition);
                }
                let changed = state.machine.drain_changed();
                state.versions.extend(changed);
                let seats = state.machine.drain_seat_changes();
                let applied = AppliedEntry {
                    group: self.0.group,
                    log_id,
                    entry: &batch.0,
                    outcomes: &outcomes,
                    seats: &seats,
                    machine: &state.machine,
                };
                for observer in &self.0.observers {
                    observer.applied(&applied);
                }
                Applied(outcomes)
            }
        }
    }
}

/// The state of a group at one moment.
pub struct View {
    meta: SnapshotMeta,
    machine: Group,
}

impl View {
    /// The bytes of a snapshot, checksummed.
    pub async fn encode(self) -> io::Result<SnapshotData> {
        let Self { meta, machine } = self;
        run_blocking(move || crate::snapshot::encode(&meta, &crate::wire::encode(&machine))).await
    }
}

/// The machine's bytes, piece by piece: made beside the tasks, while entries go on being applied, and no faster than they are
/// taken.
fn encoded(machine: Group) -> impl Stream<Item = io::Result<Bytes>> + Send {
    stream::try_unfold(machine.into_pieces(), |mut pieces| {
        run_blocking(move || {
            let mut bytes = Vec::new();
            while bytes.len() < AT_ONCE {
                let Some(piece) = pieces.next() else { break };
                bytes = crate::wire::encode_onto(bytes, &piece);
            }
            Ok((!bytes.is_empty()).then(|| (Bytes::from(bytes), pieces)))
        })
    })
}

impl State {
    fn count(&mut self, partition: &Partition) {
        match self.served.get_mut(partition) {
            Some(count) => *count += 1,
            None => _ = self.served.insert(partition.clone(), 1),
        }
    }

    fn restore(&mut self, meta: &SnapshotMeta, bytes: &[u8]) -> io::Result<()> {
        self.machine = crate::wire::decode("snapshot", bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.applied = meta.last_log_id;
        let hosted = self.machine.partitions().into_iter().map(|hosted| hosted.partition);
        self.versions = hosted.filter_map(|p| self.machine.version(&p).map(|version| (p, version))).collect();
        self.membership = meta.last_membership.clone();
        Ok(())
    }
}

impl RaftSnapshotBuilder<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        let View { meta, machine } = self.view();
        self.0.snapshots.save(&meta, encoded(machine)).await?;
        // Only what it covers is asked for here; who wants the state reads the file.
        Ok(Snapshot { meta, snapshot: SnapshotData::new() })
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        let state = self.state();
        Ok((state.applied, state.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let applied = self.apply_entry(entry.log_id, entry.payload);
            if let Some(responder) = responder {
                responder.send(applied);
            }
        }
        self.0.changed.notify_waiters();
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, bytes: SnapshotData) -> Result<(), io::Error> {
        self.0.snapshots.save(meta, stream::iter([Ok(bytes.clone())])).await?;
        {
            let mut state = self.state_mut();
            state.restore(meta, &bytes)?;
            for observer in &self.0.observers {
                observer.installed(self.0.group, state.applied, &state.machine);
            }
        }
        self.0.changed.notify_waiters();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        self.0.snapshots.load().await
    }
}
