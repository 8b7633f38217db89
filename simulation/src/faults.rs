//! What goes wrong, by the seed: one node at a time killed, without power or cut off; now and then all of them; bad
//! weather on the links, and clocks that run fast or slow.

use crate::cluster::{Cluster, NODES};
use crate::link::Weather;
use crate::trace::Trace;
use crate::workload::HOLD_TTL_MS;
use domain::ids::{GroupId, NodeId};
use madsim::rand::{Rng, thread_rng};
use std::time::Duration;

/// Kinds of faults.
const KINDS: u32 = 9;

/// How often each fault fired.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Processes killed.
    pub kills: u64,
    /// Machines that lost power.
    pub power_cuts: u64,
    /// Times when all of them did.
    pub blackouts: u64,
    /// Leaders that lost power and came back before anybody missed them.
    pub quick_restarts: u64,
    /// Links cut.
    pub partitions: u64,
    /// Clocks set wrong.
    pub skews: u64,
    /// Wall clocks set wrong by an hour.
    pub hours: u64,
    /// Processes stopped where they stood, for longer than a hold lasts.
    pub pauses: u64,
}

impl Faults {
    /// Those that never fired.
    pub fn missing(&self) -> Vec<&'static str> {
        let all = [
            (self.kills, "kill"),
            (self.power_cuts, "power cut"),
            (self.blackouts, "blackout"),
            (self.quick_restarts, "quick restart"),
            (self.partitions, "partition"),
            (self.skews, "skew"),
            (self.hours, "hour"),
            (self.pauses, "pause"),
        ];
        all.into_iter().filter(|(fired, _)| *fired == 0).map(|(_, name)| name).collect()
    }
}

/// A length by chance, in milliseconds.
async fn pause(range: std::ops::Range<u64>) {
    let ms = thread_rng().gen_range(range);
    madsim::time::sleep(Duration::from_millis(ms)).await;
}

/// Makes trouble for so many rounds, then mends everything.
pub async fn rage(cluster: &Cluster, trace: &Trace, rounds: u64) -> Faults {
    let mut faults = Faults::default();
    // Each kind once, in an order by chance, so that none is missing; then as it comes.
    let mut kinds: Vec<u32> = (0..KINDS).collect();
    for at in (1..kinds.len()).rev() {
        kinds.swap(at, thread_rng().gen_range(0..=at));
    }
    for round in 0..rounds {
        let weather = Weather {
            loss: [0.0, 0.01, 0.05, 0.15][thread_rng().gen_range(0..4)],
            repeat: [0.0, 0.02, 0.2][thread_rng().gen_range(0..3)],
            delay_us: [800, 3_000, 15_000][thread_rng().gen_range(0..3)],
            slow: [0.0, 0.01][thread_rng().gen_range(0..2)],
        };
        cluster.net.set_weather(weather);
        let victim = NODES[thread_rng().gen_range(0..NODES.len())];
        let kind = kinds.get(round as usize).copied().unwrap_or_else(|| thread_rng().gen_range(0..KINDS));
        trace.note(format_args!("round {round}: fault {kind} at node {victim}, {weather:?}"));
        strike(cluster, kind, victim, &mut faults).await;
        pause(200..2_500).await;
    }
    cluster.net.mend();
    for id in NODES {
        cluster.restart(id);
        cluster.set_clock(id, 0, 0);
    }
    trace.note(format_args!("all is mended: {faults:?}"));
    faults
}

async fn strike(cluster: &Cluster, kind: u32, victim: NodeId, faults: &mut Faults) {
    match kind {
        0 => {
            faults.kills += 1;
            cluster.kill(victim);
            pause(50..4_000).await;
            cluster.restart(victim);
        }
        1 => {
            faults.power_cuts += 1;
            cluster.worst_moment(victim).await;
            cluster.cut_power(victim);
            pause(50..4_000).await;
            cluster.restart(victim);
        }
        2 => {
            faults.blackouts += 1;
            cluster.worst_moment(victim).await;
            NODES.into_iter().for_each(|id| cluster.cut_power(id));
            pause(100..1_000).await;
            NODES.into_iter().for_each(|id| cluster.restart(id));
        }
        3 => {
            faults.partitions += 1;
            for other in NODES.into_iter().filter(|id| *id != victim) {
                cluster.net.cut(victim, other, true);
                // Sometimes only one way.
                if thread_rng().gen_bool(0.7) {
                    cluster.net.cut(other, victim, true);
                }
            }
            pause(500..5_000).await;
            for other in NODES {
                cluster.net.cut(victim, other, false);
                cluster.net.cut(other, victim, false);
            }
        }
        4 => {
            faults.skews += 1;
            let (ppm, ahead) = (thread_rng().gen_range(-150_000..150_000), thread_rng().gen_range(-800..800));
            cluster.set_clock(victim, ppm, ahead);
        }
        5 => {
            let leader = cluster.leader(GroupId(1)).unwrap_or(victim);
            faults.quick_restarts += 1;
            for _ in 0..3 {
                cluster.worst_moment(leader).await;
                cluster.cut_power(leader);
                pause(5..40).await;
                cluster.restart(leader);
                pause(100..400).await;
            }
        }
        6 => {
            faults.hours += 1;
            let ahead = [-3_600_000, 3_600_000][thread_rng().gen_range(0..2)];
            cluster.set_clock(cluster.leader(GroupId(1)).unwrap_or(victim), 0, ahead);
        }
        7 => {
            faults.pauses += 1;
            // The leader alone, so that others take over; or all of them, so that nobody notices.
            let leader = cluster.leader(GroupId(1)).unwrap_or(victim);
            let all = thread_rng().gen_bool(0.5);
            let paused: Vec<NodeId> = NODES.into_iter().filter(|id| all || *id == leader).collect();
            paused.iter().for_each(|id| cluster.pause(*id, true));
            pause(HOLD_TTL_MS.into()..2 * u64::from(HOLD_TTL_MS)).await;
            paused.iter().for_each(|id| cluster.pause(*id, false));
        }
        // Only the weather.
        _ => pause(500..2_000).await,
    }
}
