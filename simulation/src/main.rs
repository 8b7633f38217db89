//! Encore's store in simulation: the node's and the client's own code on simulated disks, links and clocks, under kills,
//! power cuts, partitions and skew. One seed is one run, to the byte. Needs `RUSTFLAGS="--cfg madsim"`; `cargo xtask sim`
//! sets it.

#[cfg(madsim)]
mod checkers;
#[cfg(madsim)]
mod cluster;
#[cfg(madsim)]
mod faults;
#[cfg(madsim)]
mod link;
#[cfg(madsim)]
mod run;
#[cfg(madsim)]
mod trace;
#[cfg(madsim)]
mod workload;

#[cfg(madsim)]
fn main() -> std::process::ExitCode {
    run::main()
}

#[cfg(not(madsim))]
fn main() -> std::process::ExitCode {
    #[allow(clippy::print_stderr)]
    {
        eprintln!("This binary simulates only when built for it. Run: cargo xtask sim --seed 1");
    }
    std::process::ExitCode::FAILURE
}
