//! The books on disk: one JSON object a line, appended; the last line about a thing counts.

use super::books::{Answered, Event, Intent, Refund};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// A payment as it now is.
    Intent(Intent),
    /// A refund as it now is.
    Refund(Refund),
    /// The answer that a key is bound to.
    Answered(Answered),
    /// An event to be delivered.
    Event(Event),
    /// It was.
    Delivered(String),
}

/// The file.
#[derive(Debug)]
pub(super) struct Journal(File);

impl Journal {
    /// Open it, handing every line to `read`. A torn last line is cut off.
    pub(super) fn open(path: &Path, mut read: impl FnMut(Line)) -> Result<Self, String> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        let file = OpenOptions::new().create(true).read(true).append(true).open(path);
        let file = file.map_err(|error| error.to_string())?;
        let (mut reader, mut good, mut text) = (BufReader::new(&file), 0, String::new());
        loop {
            text.clear();
            let length = reader.read_line(&mut text).map_err(|error| error.to_string())?;
            if length == 0 {
                break;
            }
            match serde_json::from_str(&text) {
                Ok(line) if text.ends_with('\n') => read(line),
                _ => break,
            }
            good += length as u64;
        }
        file.set_len(good).map_err(|error| error.to_string())?;
        Ok(Self(file))
    }

    /// Append one line. A provider that cannot write its books must not go on.
    pub(super) fn write(&mut self, line: &Line) {
        let mut text = serde_json::to_vec(line).expect("a line is plain data");
        text.push(b'\n');
        self.0.write_all(&text).expect("the simulator's books can be written");
    }
}
