//! How a process learns that it should end: SIGTERM, SIGINT, or, when a supervisor holds our standard input, its closing.

use std::io::Read;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled when the process should end. Call it once, at start, inside the runtime.
pub fn token(on_stdin_eof: bool) -> CancellationToken {
    let token = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let asked = token.clone();
        match signal(kind) {
            Ok(mut stream) => {
                tokio::spawn(async move {
                    stream.recv().await;
                    asked.cancel();
                });
            }
            Err(error) => tracing::error!(%error, "a signal cannot be watched"),
        }
    }
    if on_stdin_eof {
        let asked = token.clone();
        // A thread of its own: a read of standard input cannot be taken back, and must not keep the runtime.
        std::thread::spawn(move || {
            let mut ignored = [0_u8; 64];
            let mut stdin = std::io::stdin().lock();
            while matches!(stdin.read(&mut ignored), Ok(read) if read > 0) {}
            asked.cancel();
        });
    }
    token
}
