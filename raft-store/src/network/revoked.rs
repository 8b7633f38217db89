//! Certificates that were issued and are good no more, because their keys were stolen or lost: a file of their serial numbers,
//! which `encore admin certs --revoke` writes and every node reads again when it changes. A node answers nobody who shows one
//! of them, and ends the conversations that were open.

use crate::runtime::sleep;
use crate::tls::{TlsError, serial_of};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status};

/// Between two looks at the file.
const PERIOD: Duration = Duration::from_secs(2);

/// The serial numbers of such certificates. Clones share them.
#[derive(Clone)]
pub struct Revoked {
    file: Option<Arc<PathBuf>>,
    serials: Arc<watch::Sender<BTreeSet<String>>>,
}

impl Revoked {
    /// Those in the file, which must be there and readable; none without a file.
    pub fn read(file: Option<&Path>) -> Result<Self, TlsError> {
        let serials = file.map(parse).transpose()?.unwrap_or_default();
        let file = file.map(|file| Arc::new(file.to_path_buf()));
        Ok(Self { file, serials: Arc::new(watch::Sender::new(serials)) })
    }

    /// Follows the file until the node stops. What can no longer be read changes nothing.
    pub async fn follow(self, stop: CancellationToken) {
        let Some(file) = &self.file else { return };
        let mut unreadable = false;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = sleep(PERIOD) => {}
            }
            let read = parse(file);
            if let Err(error) = &read
                && !unreadable
            {
                tracing::error!(%error, "the revoked certificates cannot be read: those known before stay revoked");
            }
            unreadable = read.is_err();
            let Ok(serials) = read else { continue };
            self.serials.send_if_modified(|known| {
                let changed = *known != serials;
                if changed {
                    tracing::info!(count = serials.len(), "the list of revoked certificates has changed");
                    *known = serials;
                }
                changed
            });
        }
    }

    /// Refuses who shows one of them.
    #[allow(clippy::result_large_err)]
    pub fn check<T>(&self, request: &Request<T>) -> Result<(), Status> {
        match shown(request) {
            Some(serial) if self.serials.borrow().contains(&serial) => {
                Err(Status::permission_denied(format!("this certificate is revoked (serial {serial})")))
            }
            _ => Ok(()),
        }
    }

    /// Waits until the certificate of this request is revoked; for streams.
    pub fn wait<T>(&self, request: &Request<T>) -> impl Future<Output = ()> + Send + 'static + use<T> {
        let (serial, mut serials) = (shown(request), self.serials.subscribe());
        async move {
            match serial {
                // An error says that the node is ending.
                Some(serial) => drop(serials.wait_for(|serials| serials.contains(&serial)).await),
                None => std::future::pending().await,
            }
        }
    }
}

fn shown<T>(request: &Request<T>) -> Option<String> {
    serial_of(request.peer_certs()?.first()?).ok()
}

/// One serial number a line, then for whom it was; what follows a `#` is for people.
fn parse(file: &Path) -> Result<BTreeSet<String>, TlsError> {
    let failed = |reason: String| TlsError { file: file.to_path_buf(), reason };
    let text = fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let serials = lines.filter_map(|line| line.split_whitespace().next()).map(|serial| {
        let is_serial = serial.len().is_multiple_of(2) && serial.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_serial.then(|| serial.to_ascii_lowercase()).ok_or_else(|| failed(format!("{serial} is no serial number")))
    });
    serials.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_does_not_read_is_refused_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("revoked");
        assert!(Revoked::read(Some(&file)).is_err(), "it is not there");
        std::fs::write(&file, "# stolen in May\n0aFF node-3\n\n01 # a comment\n").unwrap();
        assert_eq!(parse(&file).unwrap(), ["01".to_owned(), "0aff".to_owned()].into());
        std::fs::write(&file, "0aff\nnode-3\n").unwrap();
        assert!(parse(&file).unwrap_err().to_string().contains("node-3 is no serial number"));
    }
}
