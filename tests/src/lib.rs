//! The harness of the process-level tests: a whole sale of real processes for each test, and fans over its public doors.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use encore_tests::{Event, Sale, eventually};
//!
//! let mut sale = Sale::of(Event::new().section("Stalls", 6, 10).hold_ttl_s(60)).start().await?;
//! let alice = sale.fan("alice");
//! let pass = sale.pass(&alice).await?;
//! let held = alice.hold(1, &sale.row("Stalls", "1", 1..=2), &pass, "key-1").await?.expect(201)?;
//! assert_eq!(sale.buy(&alice, &held.body, "tok_visa").await?, "succeeded");
//! sale.stack.kill(encore::supervise::Part::Node(1)).await?;
//! sale.audit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Every process is started by the test and ends with it: `Sale` kills what is left when it is dropped. A test waits for
//! conditions with [`eventually`], never for time to pass. The binary is `$ENCORE_BINARY`, or is built by
//! `cargo build --package encore` into the target folder that the test itself was built into, so it is never stale.
//! With `ENCORE_TEST_KEEP=1` the folders of sales stay, with every process's log.

mod binary;
mod event;
pub mod rounds;
mod sale;
pub mod webhook;

pub use binary::encore as binary;
pub use encore::fan::{Answer, Doors, Fan, Seat, hold_body, read};
pub use encore::supervise::{Door, Part, Stack};
pub use event::Event;
pub use sale::{Builder, Sale};

use std::future::Future;
use std::time::{Duration, Instant};

/// Ask again and again until the condition holds. The error says what was waited for and what was seen last.
pub async fn eventually<F, T>(what: &str, within: Duration, mut ask: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let begun = Instant::now();
    loop {
        match ask().await {
            Ok(value) => return Ok(value),
            Err(error) if begun.elapsed() > within => {
                return Err(error.context(format!("after {} s: {what}", within.as_secs())));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
