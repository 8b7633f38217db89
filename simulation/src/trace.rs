//! What happened, line by line, with simulated time: equal seeds give equal bytes.

use std::fmt::Display;
use std::sync::{Arc, Mutex};

/// The trace of a run. Clones share it.
#[derive(Clone, Default)]
pub struct Trace(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    text: String,
    broken: Vec<String>,
}

/// Simulated time since the start, in microseconds.
pub fn now_us() -> u64 {
    u64::try_from(madsim::time::TimeHandle::current().elapsed().as_micros()).unwrap_or(u64::MAX)
}

impl Trace {
    /// Notes something.
    pub fn note(&self, what: impl Display) {
        use std::fmt::Write;
        let mut inner = self.0.lock().expect("no holder of this lock panics");
        writeln!(inner.text, "{:>12} {what}", now_us()).expect("a string takes everything");
    }

    /// Notes that a rule is broken.
    pub fn broken(&self, what: impl Display) {
        let what = what.to_string();
        self.note(format_args!("BROKEN {what}"));
        self.0.lock().expect("no holder of this lock panics").broken.push(what);
    }

    /// Everything that is broken.
    pub fn verdict(&self) -> Vec<String> {
        self.0.lock().expect("no holder of this lock panics").broken.clone()
    }

    /// The lines.
    pub fn text(&self) -> String {
        self.0.lock().expect("no holder of this lock panics").text.clone()
    }
}
