//! How many holds a second three nodes in one process grant to so many fans at once; a look for stupid costs, not a
//! benchmark. `cargo run --example holds -- [fans] [seconds]`.

#[path = "../tests/served/mod.rs"]
mod served;

use domain::inventory::{Outcome, Status};
use raft_store::client::NodeAnswer;
use served::{EVENT, Store, begin, event, plan};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const SECTIONS: u16 = 20;
const SEATS: u32 = 10_000;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let (fans, seconds) = (arguments.next().unwrap_or(256), arguments.next().unwrap_or(10));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run(fans, Duration::from_secs(seconds)));
}

async fn run(fans: u64, time: Duration) {
    let store = Store::start().await;
    let client = store.client();
    let plans: Vec<_> = (0..SECTIONS).map(|section| plan(section, SEATS / 10)).collect();
    client.publish(event(&plans), plans, Vec::new(), Vec::new()).await.expect("published");
    let (next, granted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let began = Instant::now();
    let cpu = cpu_seconds();
    let waits = (0..fans).map(|_| {
        let (client, next, granted) = (client.clone(), next.clone(), granted.clone());
        tokio::spawn(async move {
            let mut waits = Vec::new();
            while began.elapsed() < time {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let seat = (number * 2) as u32;
                let section = (seat / SEATS) as u16;
                if section >= SECTIONS {
                    break;
                }
                let asked = Instant::now();
                let wish = begin(number, &[(section, seat % SEATS), (section, seat % SEATS + 1)]);
                match client.begin(EVENT, wish).await {
                    Ok(Outcome::Reservation(view)) if view.status == Status::Held => {
                        granted.fetch_add(1, Ordering::Relaxed);
                    }
                    other => println!("{other:?}"),
                }
                waits.push(asked.elapsed());
            }
            waits
        })
    });
    let mut waits: Vec<Duration> =
        futures::future::join_all(waits).await.into_iter().flat_map(Result::unwrap).collect();
    waits.sort();
    let (took, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let granted = granted.load(Ordering::Relaxed) as f64;
    println!("{granted} holds in {took:.1} s: {:.0} a second, {:.0} a CPU second", granted / took, granted / cpu);
    println!("p50 {:?}, p99 {:?}", waits[waits.len() / 2], waits[waits.len() * 99 / 100]);
    for (address, answer) in client.status().await.nodes {
        if let NodeAnswer::Up(node) = answer {
            for group in node.groups {
                println!("{address} group {}: {:?} last log {:?}", group.group, group.role, group.last_log);
            }
        }
    }
}

/// Of this process, from the kernel.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}
