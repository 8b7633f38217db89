//! Standard output of this program: `print!` and `println!` of this crate are the two below. When nobody reads any more, as
//! after `| head -1`, the program ends quietly, as every program does that a closed pipe ends; std's own would panic.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// How a shell sees a program that the signal of a closed pipe ended.
const CLOSED_PIPE: i32 = 141;

/// std's `println!`, without the panic.
macro_rules! println {
    () => { $crate::out::write(format_args!("\n")) };
    ($($word:tt)*) => { $crate::out::write(format_args!("{}\n", format_args!($($word)*))) };
}

/// std's `print!`, without the panic.
macro_rules! print {
    ($($word:tt)*) => { $crate::out::write(format_args!($($word)*)) };
}

/// Write to standard output, or end this process when that cannot be.
pub fn write(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        if error.kind() == ErrorKind::BrokenPipe {
            std::process::exit(CLOSED_PIPE);
        }
        eprintln!("encore: standard output: {error}");
        std::process::exit(1);
    }
}
