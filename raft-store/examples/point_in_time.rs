//! What a snapshot costs those who hold seats meanwhile: 500 sections of 2,000 seats in one group, holds in all of them.
//! Prints how long encoding takes (what entries waited for when it was done under the lock), how long taking a view takes
//! (what they wait for now), how long the slowest entry takes while a view is shared, and resident bytes a seat.
//! `cargo run --release --example point_in_time`.

#[path = "../tests/served/mod.rs"]
mod served;

use domain::ids::{Bucket, GroupId, Partition};
use domain::inventory::command::{Checkout, CheckoutRules, Manage, PriceRule, Spec};
use domain::inventory::{Command, Entry, Group, Outcome, Request};
use domain::time::{Stamp, WallMs};
use served::{EVENT, begin, event, plan};
use std::time::{Duration, Instant};

const SECTIONS: u16 = 500;
const ROWS: u32 = 200;
const BUCKETS: u16 = 64;
/// Two-seat holds in each section.
const HOLDS: usize = 20;

fn main() {
    let before = resident();
    let mut group = on_sale();
    let seats = f64::from(SECTIONS) * f64::from(ROWS) * 10.0;
    let empty = resident();
    println!("{seats} seats in {SECTIONS} sections: {:.0} bytes a seat resident", (empty - before) as f64 / seats);
    let mut fan = 0;
    for round in 0..HOLDS {
        hold_everywhere(&mut group, &mut fan, round);
    }
    let held = fan as f64 * 2.0;
    println!("with {held} seats held: {:.0} bytes a seat resident", (resident() - before) as f64 / seats);

    let began = Instant::now();
    let bytes = postcard::to_stdvec(&group).expect("plain data");
    println!("encoding {} MiB: {:?}, for which entries waited before", bytes.len() >> 20, began.elapsed());
    drop(bytes);
    let began = Instant::now();
    let view = group.clone();
    println!("taking a view: {:?}, for which they wait now", began.elapsed());
    let shared = hold_everywhere(&mut group, &mut fan, HOLDS);
    drop(view);
    let alone = hold_everywhere(&mut group, &mut fan, HOLDS + 1);
    println!("slowest entry while a view is shared: {shared:?}; with none: {alone:?}");
}

fn apply(group: &mut Group, partition: Partition, command: Command) -> Outcome {
    let stamp = Stamp { elapsed_ms: 1, wall: WallMs(1) };
    group.apply(&Entry { stamp, requests: vec![Request { partition, command }] }).remove(0)
}

fn on_sale() -> Group {
    let mut group = Group::new(GroupId(1));
    let record = event(&[]);
    let price = PriceRule { base: record.tiers[0].base, dynamic: false, event_starts_at: record.starts_at };
    let rules = CheckoutRules {
        version: 1,
        currency: record.currency,
        hold_ttl_ms: record.hold_ttl_ms,
        user_limit: record.user_limit,
        on_sale_at: record.on_sale_at,
        status: record.status,
        incarnation: 0,
    };
    let mut create = |partition, spec| {
        assert_eq!(apply(&mut group, partition, Command::Manage(Manage::Create(Box::new(spec)))), Outcome::Done);
    };
    for section in 0..SECTIONS {
        let plan = plan(section, ROWS);
        create(Partition::Seats { event: EVENT, section: plan.section }, Spec::Seats { plan, price });
    }
    for bucket in (0..BUCKETS).map(Bucket) {
        create(Partition::Checkouts { event: EVENT, bucket }, Spec::Checkouts(rules));
    }
    group
}

/// One hold of two seats in each section; the slowest entry.
fn hold_everywhere(group: &mut Group, fan: &mut usize, round: usize) -> Duration {
    let mut slowest = Duration::ZERO;
    for section in 0..SECTIONS {
        let seat = (round * 2) as u32;
        let begin = begin(*fan, &[(section, seat), (section, seat + 1)]);
        *fan += 1;
        let partition = Partition::Checkouts { event: EVENT, bucket: begin.bucket(BUCKETS) };
        let began = Instant::now();
        let outcome = apply(group, partition, Command::Checkout(Checkout::Begin(Box::new(begin))));
        slowest = slowest.max(began.elapsed());
        assert!(matches!(outcome, Outcome::Reservation(_)), "{outcome:?}");
    }
    slowest
}

/// Bytes of this process in memory, from the kernel.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4_096
}
