//! What a node's operator sees as metrics. Labels are groups, of which there are few; never a seat, a user or a reservation.

use crate::group::{GroupHandle, GroupStatus};
use crate::node::Node;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::Ordering::Relaxed;

/// Registers a node's metrics; they are read from the node whenever they are scraped.
pub fn register(node: &Node, registry: &mut Registry) {
    registry.register_collector(Box::new(NodeMetrics(node.clone())));
}

#[derive(Clone)]
struct NodeMetrics(Node);

impl std::fmt::Debug for NodeMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "metrics of node {}", self.0.id())
    }
}

type Read = fn(&GroupStatus, &GroupHandle) -> i64;

const GAUGES: [(&str, &str, Read); 9] = [
    ("store_group_term", "Term of this node's vote", |status, _| whole(status.term)),
    ("store_group_is_leader", "1 if this node leads the group", |status, _| i64::from(status.is_leader)),
    ("store_group_has_leader", "1 if this node knows of a leader", |status, _| i64::from(status.leader.is_some())),
    ("store_group_last_log_index", "Last entry in the log", |status, _| whole(status.last_log.unwrap_or(0))),
    ("store_group_applied_index", "Last applied entry", |status, _| whole(status.applied.unwrap_or(0))),
    ("store_group_snapshot_index", "Last entry in the snapshot", |status, _| whole(status.snapshot.unwrap_or(0))),
    ("store_group_stopped", "1 if consensus has stopped here", |status, _| i64::from(status.stopped.is_some())),
    ("store_group_log_bytes", "Bytes of the log that are not purged", |_, group| {
        i64::try_from(group.log_bytes()).unwrap_or(i64::MAX)
    }),
    ("store_group_queued_proposals", "Proposals that wait", |_, group| {
        i64::try_from(group.queued()).unwrap_or(i64::MAX)
    }),
];

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Collector for NodeMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let groups: Vec<_> = self.0.groups().into_iter().map(|group| (group.status(), group)).collect();
        for (name, help, read) in GAUGES {
            let gauge = ConstGauge::new(0_i64);
            let mut family = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            for (status, group) in &groups {
                let label = [("group", status.group.to_string())];
                ConstGauge::new(read(status, group)).encode(family.encode_family(&label)?)?;
            }
        }
        let counters = self.0.wal().counters();
        for (name, help, counter) in [
            ("store_log_syncs", "Batches written to the node's log, each with one sync", &counters.syncs),
            ("store_log_records", "Records written to the node's log", &counters.records),
            ("store_log_bytes", "Bytes written to the node's log", &counters.bytes),
        ] {
            let counter = ConstCounter::new(counter.load(Relaxed));
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let segments = ConstGauge::new(whole(counters.segments.load(Relaxed)));
        if let Some(ahead_ms) = self.0.clocks().ahead_ms() {
            let help = "Milliseconds that this node's wall clock is ahead of the median of its peers";
            let ahead = ConstGauge::new(ahead_ms);
            ahead.encode(encoder.encode_descriptor("store_clock_offset_ms", help, None, ahead.metric_type())?)?;
        }
        let help = "Segments of the node's log on disk";
        segments.encode(encoder.encode_descriptor("store_log_segments", help, None, segments.metric_type())?)?;
        Ok(())
    }
}
