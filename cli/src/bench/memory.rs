//! How much of a process is in memory, from the kernel's own books.

use std::fs;

/// Bytes of a process that are in memory; `None` if it is gone.
pub fn resident(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    parse(&status)
}

/// `VmRSS:     1234 kB`.
fn parse(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_memory_and_another_form_is_no_number() {
        assert!(resident(std::process::id()).is_some_and(|bytes| bytes > 1 << 20));
        assert_eq!(parse("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t1\n"), Some(2 << 20));
        assert_eq!(parse("Name:\tx\n"), None);
    }
}
