//! The demo's two events: files in the binary, laid out beside each other where `encore admin publish` finds them.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

const FILES: [(&str, &str); 3] = [
    ("hall.json", include_str!("../../assets/hall.json")),
    ("hall.pretix.json", include_str!("../../assets/hall.pretix.json")),
    ("arena.json", include_str!("../../assets/arena.json")),
];

/// The hall.
pub const HALL: u32 = 1;
/// The arena.
pub const ARENA: u32 = 2;

/// Write the files below `dir`, and say which of them are events.
pub fn unpack(dir: &Path) -> Result<Vec<PathBuf>> {
    let folder = dir.join("events");
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    for (name, text) in FILES {
        fs::write(folder.join(name), text)?;
    }
    Ok(vec![folder.join("hall.json"), folder.join("arena.json")])
}
