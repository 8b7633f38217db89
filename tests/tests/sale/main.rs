//! Tests over a whole sale of running processes, one topic a file. One program, because each would link everything anew.

mod audits;
mod bad_input;
mod bench;
mod browser;
mod cancelling;
mod crash;
mod demo;
mod faults;
mod gates;
mod idempotency;
mod keep;
mod money;
mod openapi;
mod outages;
mod readme;
mod resize;
mod rounds;
mod stampede;
mod time;
