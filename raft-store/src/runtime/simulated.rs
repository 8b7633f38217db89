//! The simulated host: tasks, timers, clocks and chance from madsim, so that one seed is one run. Each node has a clock of
//! its own, which may run fast, slow, and jump ahead.

use super::deterministic_watch::DeterministicWatch;
use domain::time::WallMs;
use madsim::task::NodeId;
use openraft_rt::{AsyncRuntime, OptionalSend};
use openraft_rt_tokio::{TokioMpsc, TokioMutex, TokioOneshot};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// The simulated wall clock starts here: an ordinary day.
const EPOCH_MS: u64 = 1_790_000_000_000;
const MILLION: i128 = 1_000_000;

/// How a node's clock follows the simulation's.
#[derive(Clone, Copy, Default)]
struct Clock {
    /// Global time when its rate was last set.
    since: Duration,
    /// What it showed then.
    showed: Duration,
    /// Parts in a million that it runs fast.
    fast_ppm: i64,
    /// What its wall clock is ahead of its monotonic clock.
    wall_ahead_ms: i64,
}

thread_local! {
    // One simulation a thread.
    static CLOCKS: RefCell<BTreeMap<NodeId, Clock>> = const { RefCell::new(BTreeMap::new()) };
}

fn global_now() -> Duration {
    madsim::time::TimeHandle::current().elapsed()
}

fn clock() -> Clock {
    let node = madsim::plugin::node();
    CLOCKS.with(|clocks| clocks.borrow().get(&node).copied().unwrap_or_default())
}

fn nanos(value: i128) -> Duration {
    Duration::from_nanos(u64::try_from(value).unwrap_or(u64::MAX))
}

impl Clock {
    fn shows(&self, global: Duration) -> Duration {
        let passed = (global - self.since).as_nanos() as i128;
        self.showed + nanos(passed * (MILLION + i128::from(self.fast_ppm)) / MILLION)
    }

    /// Global time in which this clock passes `local`; rounded up, so that no wait ends early by the node's own clock.
    fn takes(&self, local: Duration) -> Duration {
        let rate = MILLION + i128::from(self.fast_ppm);
        nanos((local.as_nanos() as i128 * MILLION + rate - 1) / rate)
    }
}

/// Sets how fast a node's clock runs, and how far its wall clock is off. Its monotonic clock never goes back.
pub fn set_clock(node: NodeId, fast_ppm: i64, wall_ahead_ms: i64) {
    let since = global_now();
    CLOCKS.with(|clocks| {
        let mut clocks = clocks.borrow_mut();
        let showed = clocks.get(&node).copied().unwrap_or_default().shows(since);
        clocks.insert(node, Clock { since, showed, fast_ppm, wall_ahead_ms });
    });
}

/// All clocks right again: at the start of a simulation.
pub fn reset_clocks() {
    CLOCKS.with(|clocks| clocks.borrow_mut().clear());
}

/// Milliseconds since the epoch by this node's wall clock.
pub fn wall_now() -> WallMs {
    let clock = clock();
    let shows = u64::try_from(clock.shows(global_now()).as_millis()).unwrap_or(u64::MAX);
    WallMs((EPOCH_MS + shows).saturating_add_signed(clock.wall_ahead_ms))
}

/// A number that differs between the lives of one node: when it began, which no two of them share.
pub fn new_life() -> std::io::Result<u128> {
    Ok(global_now().as_nanos())
}

/// Ends the simulation: a node broke.
pub fn abort(reason: &str) -> ! {
    panic!("a simulated node aborted: {reason}")
}

/// There is nothing to run beside: system threads are not simulated.
pub async fn run_blocking<F, T>(work: F) -> io::Result<T>
where
    F: FnOnce() -> io::Result<T> + Send + 'static,
    T: Send + 'static,
{
    work()
}

/// A point of a node's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SimInstant(Duration);

impl Add<Duration> for SimInstant {
    type Output = Self;
    fn add(self, later: Duration) -> Self {
        Self(self.0 + later)
    }
}

impl AddAssign<Duration> for SimInstant {
    fn add_assign(&mut self, later: Duration) {
        self.0 += later;
    }
}

impl Sub<Duration> for SimInstant {
    type Output = Self;
    fn sub(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(earlier))
    }
}

impl Sub for SimInstant {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl SubAssign<Duration> for SimInstant {
    fn sub_assign(&mut self, earlier: Duration) {
        *self = *self - earlier;
    }
}

impl openraft_rt::Instant for SimInstant {
    fn now() -> Self {
        Self(clock().shows(global_now()))
    }
}

/// A future that is given up after a while.
pub struct Timeout<F> {
    future: Pin<Box<F>>,
    sleep: madsim::time::Sleep,
}

/// It was given up.
#[derive(Debug)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("time-out")
    }
}

impl<R, F: Future<Output = R>> Future for Timeout<F> {
    type Output = Result<R, Elapsed>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(result) = self.future.as_mut().poll(context) {
            return Poll::Ready(Ok(result));
        }
        Pin::new(&mut self.sleep).poll(context).map(|()| Err(Elapsed))
    }
}

/// Chance from the seed.
pub struct SeededRng;

impl rand_core::TryRng for SeededRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(madsim::rand::RngCore::next_u32(&mut madsim::rand::thread_rng()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(madsim::rand::RngCore::next_u64(&mut madsim::rand::thread_rng()))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        madsim::rand::RngCore::fill_bytes(&mut madsim::rand::thread_rng(), bytes);
        Ok(())
    }
}

/// openraft's runtime.
#[derive(Debug)]
pub struct Rt;

impl AsyncRuntime for Rt {
    type JoinError = madsim::task::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = madsim::task::JoinHandle<T>;
    type Sleep = madsim::time::Sleep;
    type Instant = SimInstant;
    type TimeoutError = Elapsed;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = Timeout<T>;
    type ThreadLocalRng = SeededRng;
    type Mpsc = TokioMpsc;
    type Watch = DeterministicWatch;
    type Oneshot = TokioOneshot;
    type Mutex<T: OptionalSend + 'static> = TokioMutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        madsim::task::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        madsim::time::sleep(clock().takes(duration))
    }

    fn sleep_until(deadline: SimInstant) -> Self::Sleep {
        Self::sleep(deadline - <SimInstant as openraft_rt::Instant>::now())
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Timeout<F> {
        Timeout { future: Box::pin(future), sleep: Self::sleep(duration) }
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: SimInstant, future: F) -> Timeout<F> {
        Timeout { future: Box::pin(future), sleep: Self::sleep_until(deadline) }
    }

    fn is_panic(error: &Self::JoinError) -> bool {
        error.is_panic()
    }

    fn thread_rng() -> SeededRng {
        SeededRng
    }

    fn new(_threads: usize) -> Self {
        Self
    }

    fn block_on<F, T>(&mut self, _future: F) -> T
    where
        F: Future<Output = T>,
    {
        unreachable!("a simulation blocks on nothing but itself")
    }

    async fn spawn_blocking<F, T>(work: F) -> Result<T, io::Error>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Ok(work())
    }
}
