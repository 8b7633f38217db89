//! Where mail goes. The file sink writes one `.eml` a message into a folder: for demos, tests and a look before going live.

use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Message};
use lettre::{AsyncFileTransport, AsyncTransport, Tokio1Executor};
use std::future::Future;
use std::path::Path;

/// A message, ready to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The fan's address.
    pub to: String,
    /// Subject.
    pub subject: String,
    /// Plain text.
    pub body: String,
    /// Number of the message: the same on every attempt, so that a mail server can tell a repeated one.
    pub message: u64,
}

/// Hands messages over; may be asked for the same one again.
pub trait Sink: Send + Sync + 'static {
    /// Hand one over, or say why not.
    fn send(&self, mail: &Mail) -> impl Future<Output = Result<(), String>> + Send;
}

/// A folder of `.eml` files.
#[derive(Debug)]
pub struct FileSink {
    transport: AsyncFileTransport<Tokio1Executor>,
    from: Mailbox,
}

impl FileSink {
    /// Into this folder, made if need be, from this address.
    pub fn new(folder: &Path, from: &str) -> Result<Self, String> {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let from = from.parse().map_err(|error| format!("{from}: {error}"))?;
        Ok(Self { transport: AsyncFileTransport::new(folder), from })
    }
}

impl Sink for FileSink {
    async fn send(&self, mail: &Mail) -> Result<(), String> {
        let message = message(mail, &self.from)?;
        self.transport.send(message).await.map(|_| ()).map_err(|error| error.to_string())
    }
}

fn message(mail: &Mail, from: &Mailbox) -> Result<Message, String> {
    let to: Mailbox = mail.to.parse().map_err(|error| format!("no mail can be sent to this address: {error}"))?;
    Message::builder()
        .message_id(Some(format!("<notice-{}@encore>", mail.message)))
        .from(from.clone())
        .to(to)
        .subject(&mail.subject)
        .header(ContentType::TEXT_PLAIN)
        .body(mail.body.clone())
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_message_becomes_a_file() {
        let folder = std::env::temp_dir().join(format!("encore-mail-{}", std::process::id()));
        let sink = FileSink::new(&folder, "Encore <tickets@encore.invalid>").expect("a sink");
        let mail = |to: &str| Mail { to: to.into(), subject: "Grüße".into(), body: "Hello".into(), message: 7 };
        sink.send(&mail("fan@example.org")).await.expect("sent");
        sink.send(&mail("not an address")).await.expect_err("no address is made up");
        let files = std::fs::read_dir(&folder).expect("the folder").filter_map(Result::ok);
        let texts: Vec<String> = files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
        std::fs::remove_dir_all(&folder).expect("removed");
        assert!(texts.iter().any(|text| text.contains("To: fan@example.org")), "{texts:?}");
        assert!(!texts.iter().any(|text| text.contains("not an address")), "{texts:?}");
    }
}
