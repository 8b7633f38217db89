//! Entry point of the one binary; everything is in the library beside it, where the tests can reach it.

use std::process::ExitCode;

/// The store's state is millions of small parts: a fifth of a node's work was the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    encore::commands::main()
}
