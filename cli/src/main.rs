//! Entry point of the one binary; everything is in the library beside it, where the tests can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    encore::commands::main()
}
