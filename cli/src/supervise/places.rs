//! Where everything of one stack is: its folders, and the ports that it keeps from one start to the next.

use super::part::Part;
use super::ports::Ports;
use super::stack::Progress;
use crate::draft::Draft;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How long the parts of a killed start may take to give back their ports: PostgreSQL writes everything down first.
const STILL_ENDING: Duration = Duration::from_secs(20);

/// One address of one part: a process may listen for more than its fans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Door {
    /// What it is there for; also `/healthz`, `/readyz` and `/metrics`.
    Main,
    /// Another: gRPC of a node, the operators' listener of an API process or of the waiting room.
    Second,
}

/// Folders and ports of one stack.
pub struct Places {
    dir: PathBuf,
    ports: BTreeMap<String, u16>,
    claims: Ports,
}

impl Places {
    /// Those of the folder `dir`, which is made when it is missing. Ports of an earlier start are taken again; when that
    /// start was killed, its parts may need a moment to notice and to give them back.
    pub async fn open(dir: &Path, progress: Progress<'_>) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
        let dir = dir.canonicalize()?;
        // PostgreSQL's user must pass through; what is secret is in folders of its own.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o711))?;
        for folder in ["config", "secrets", "logs", "data", "mail"] {
            fs::create_dir_all(dir.join(folder))?;
            let open = if folder == "data" { 0o711 } else { 0o700 };
            fs::set_permissions(dir.join(folder), fs::Permissions::from_mode(open))?;
        }
        let mut claims = Ports::default();
        let ports: BTreeMap<String, u16> = match fs::read_to_string(dir.join("ports.json")) {
            Ok(text) => serde_json::from_str(&text).with_context(|| format!("{}/ports.json", dir.display()))?,
            Err(_) => BTreeMap::new(),
        };
        let begun = Instant::now();
        let mut said = false;
        for port in ports.values() {
            while !claims.reclaim(*port)? {
                if begun.elapsed() > STILL_ENDING {
                    bail!("port {port}, which this data uses, is taken by another program");
                }
                if !said {
                    progress("waiting for the ports of an earlier start");
                    said = true;
                }
                sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(Self { dir, ports, claims })
    }

    /// The folder of all.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Make a folder of the data of this name, such as the one that all gates of the venue share.
    pub fn make_data(&self, name: &str) -> Result<PathBuf> {
        let folder = self.dir.join("data").join(name);
        private_folder(&folder)?;
        Ok(folder)
    }

    /// Where a part keeps its data.
    pub fn data(&self, part: Part) -> PathBuf {
        self.dir.join("data").join(part.to_string())
    }

    /// Where a part writes its log.
    pub fn log(&self, part: Part) -> PathBuf {
        self.dir.join("logs").join(format!("{part}.log"))
    }

    /// A part's settings.
    pub fn config(&self, part: Part) -> PathBuf {
        self.dir.join("config").join(format!("{part}.toml"))
    }

    /// A file with a secret.
    pub fn secret(&self, name: &str) -> PathBuf {
        self.dir.join("secrets").join(name)
    }

    /// Where mail is put.
    pub fn mail(&self) -> PathBuf {
        self.dir.join("mail")
    }

    /// This port for this door, from now on. Fails when another program has it.
    pub fn fix_port(&mut self, part: Part, door: Door, port: u16) -> Result<()> {
        if self.ports.get(&name(part, door)) != Some(&port) {
            if !self.claims.reclaim(port)? {
                bail!("port {port} is taken by another program: choose another");
            }
            self.ports.insert(name(part, door), port);
        }
        self.write_ports()
    }

    /// The port of a door; chosen when it is first asked for, and kept.
    pub fn port(&mut self, part: Part, door: Door) -> Result<u16> {
        if let Some(port) = self.known_port(part, door) {
            return Ok(port);
        }
        let port = self.claims.claim()?;
        self.ports.insert(name(part, door), port);
        self.write_ports()?;
        Ok(port)
    }

    /// The port of a door, if it has one.
    pub fn known_port(&self, part: Part, door: Door) -> Option<u16> {
        self.ports.get(&name(part, door)).copied()
    }

    fn write_ports(&self) -> Result<()> {
        Draft::of(&self.dir.join("ports.json"))?.replace(&serde_json::to_vec_pretty(&self.ports)?)
    }
}

/// A folder that nobody else may look into: it holds fans' names, tickets and secrets.
pub(super) fn private_folder(path: &Path) -> Result<()> {
    let made = fs::create_dir_all(path).and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o700)));
    made.with_context(|| format!("{} cannot be made", path.display()))
}

fn name(part: Part, door: Door) -> String {
    match door {
        Door::Main => part.to_string(),
        Door::Second => format!("{part}/second"),
    }
}
