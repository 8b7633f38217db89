//! A file that is there whole or not at all: written beside its place under another name, synced, and then put there.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// What a file is going to be. Only its owner can read it; dropped, it leaves nothing.
pub struct Draft {
    written: NamedTempFile,
    place: PathBuf,
}

impl Draft {
    /// Begins one, which fails where nothing can be written.
    pub fn of(place: &Path) -> Result<Self> {
        let written = tempfile::Builder::new().prefix(".encore-").suffix(".draft").tempfile_in(folder(place));
        let written = written.with_context(|| format!("{} cannot be written", place.display()))?;
        Ok(Self { written, place: place.to_owned() })
    }

    /// Puts it in its place, over what was there.
    pub fn replace(self, bytes: &[u8]) -> Result<()> {
        self.put(bytes, |written, place| written.persist(place).map_err(|error| error.error))
    }

    /// Puts it in its place, if nothing is there.
    pub fn create(self, bytes: &[u8]) -> Result<()> {
        self.put(bytes, |written, place| written.persist_noclobber(place).map_err(|error| error.error))
    }

    fn put(self, bytes: &[u8], put: fn(NamedTempFile, &Path) -> std::io::Result<File>) -> Result<()> {
        let Self { mut written, place } = self;
        let put = (|| {
            written.write_all(bytes)?;
            written.as_file().sync_all()?;
            put(written, &place)?;
            File::open(folder(&place))?.sync_all()
        })();
        put.with_context(|| format!("{} cannot be written", place.display()))
    }
}

fn folder(place: &Path) -> &Path {
    place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_draft_replaces_or_creates_and_leaves_nothing_when_it_is_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("file");
        drop(Draft::of(&place).expect("begun"));
        assert_eq!(fs::read_dir(&folder).expect("read").count(), 0, "nothing is left");
        Draft::of(&place).and_then(|draft| draft.create(b"one")).expect("there was none");
        let again = Draft::of(&place).and_then(|draft| draft.create(b"two"));
        assert!(again.is_err(), "there is one");
        assert_eq!(fs::read(&place).expect("read"), b"one");
        Draft::of(&place).and_then(|draft| draft.replace(b"three")).expect("replaced");
        assert_eq!(fs::read(&place).expect("read"), b"three");
        assert_eq!(fs::read_dir(&folder).expect("read").count(), 1, "no draft is left");
    }

    #[test]
    fn a_folder_that_is_missing_is_said_before_the_work() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(Draft::of(&folder.path().join("none/file")).is_err());
    }
}
