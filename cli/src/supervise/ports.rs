//! Free loopback ports that stay ours: below the range that outgoing connections use, and locked by a file for as long as
//! the claim lives, so that two stacks on one machine never take the same, even while a killed process is being restarted.

use anyhow::{Context, Result, bail};
use rand::Rng;
use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

/// Below Linux's default ephemeral range, which starts at 32768.
const RANGE: std::ops::Range<u16> = 16_000..32_000;
const TRIES: usize = 2_000;

/// Ports claimed by one stack; given back when dropped.
#[derive(Default)]
pub struct Ports {
    claims: Vec<File>,
}

impl Ports {
    /// A port that nobody uses now and no other stack will.
    pub fn claim(&mut self) -> Result<u16> {
        let mut random = rand::rng();
        for _ in 0..TRIES {
            if let Some(port) = self.try_claim(random.random_range(RANGE))? {
                return Ok(port);
            }
        }
        bail!("no free port between {} and {}", RANGE.start, RANGE.end)
    }

    /// This very port, as a stack that reuses its data needs. False when another program has it.
    pub fn reclaim(&mut self, port: u16) -> Result<bool> {
        Ok(self.try_claim(port)?.is_some())
    }

    fn try_claim(&mut self, port: u16) -> Result<Option<u16>> {
        let folder = folder()?;
        let path = folder.join(port.to_string());
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let Ok(file) = file else { return Ok(None) };
        if file.try_lock().is_err() || TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err() {
            return Ok(None);
        }
        self.claims.push(file);
        Ok(Some(port))
    }
}

fn folder() -> Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let folder = std::env::temp_dir().join(format!("encore-ports-{user}"));
    std::fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_port_is_not_claimed_twice_and_comes_back() {
        let mut first = Ports::default();
        let port = first.claim().expect("a free port");
        assert!(!Ports::default().reclaim(port).expect("asked"));
        drop(first);
        assert!(Ports::default().reclaim(port).expect("asked"), "it was given back");
    }
}
