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

#[cfg(test)]
mod tests {
    use super::super::books::Books;
    use super::super::trouble::Trouble;
    use serde_json::json;
    use std::io::Write;

    #[test]
    fn a_restarted_provider_knows_what_it_knew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("books.jsonl");
        let intent = |status: &str| super::Intent {
            id: "pi_1".into(),
            amount: 80,
            currency: "jpy".into(),
            status: status.into(),
            received: 0,
            refunded: 0,
            client_secret: "s".into(),
            error: None,
            metadata: [("payment_id".to_owned(), "pay_1".to_owned())].into(),
            created: 1,
            trouble: Trouble::Late(5),
            charge_at: Some(9),
        };
        let mut books = Books::open(&path).expect("new books");
        books.keep_intent(intent("requires_payment_method"));
        books.keep_intent(intent("processing"));
        books.announce("a.kind", &json!({"a": 1}), 0, Trouble::Smooth);
        books.announce("b.kind", &json!({"b": 1}), 0, Trouble::Duplicate);
        let first = books.events.keys().next().expect("an event").clone();
        books.delivered(&first);
        drop(books);
        // The last line was being written when the power went.
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).expect("the file");
        file.write_all(b"{\"delivered\":\"ev").expect("written");
        for _ in 0..2 {
            let mut books = Books::open(&path).expect("old books");
            assert_eq!(books.intents["pi_1"].status, "processing");
            assert_eq!(books.intents["pi_1"].trouble, Trouble::Late(5));
            assert_eq!(books.events.len(), 1, "what was not delivered is still to be delivered");
            books.keep_intent(intent("processing"));
        }
    }
}
