//! The composition root: configuration, the subcommands of the binary `encore`, and the supervision of a whole sale on
//! one machine, which the demo and the process-level tests share. No rule of selling lives here.

#[macro_use]
pub mod out;

pub mod audit;
pub mod bench;
pub mod certificates;
pub mod commands;
pub mod config;
pub mod crowd;
pub mod demo;
pub mod draft;
pub mod fan;
pub mod supervise;
pub mod words;
