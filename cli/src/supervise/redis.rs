//! A private Redis: its own folder and port, everything on disk within a second, a password only we know.

use super::keep::PATIENCE;
use super::places::private_folder;
use super::process::{Process, Spec};
use anyhow::{Context, Result};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// What a private server needs to know.
pub struct Redis {
    /// Its folder.
    pub data: PathBuf,
    /// Its port on the loopback.
    pub port: u16,
    /// Its password.
    pub password: String,
}

impl Redis {
    /// Where clients connect.
    pub fn url(&self) -> String {
        format!("redis://:{}@127.0.0.1:{}/", self.password, self.port)
    }

    /// The server's process, not started. The password stands in a file: arguments can be read by everybody.
    pub fn process(&self, encore: &Path, log: PathBuf) -> Result<Process> {
        private_folder(&self.data)?;
        let file = self.data.join("redis.conf");
        let settings = format!(
            "bind 127.0.0.1\nport {}\ndir {}\nrequirepass {}\nappendonly yes\nappendfsync everysec\nsave \"\"\n\
             daemonize no\nmaxclients 10000\n",
            self.port,
            quoted(&self.data),
            self.password
        );
        let mut open = fs::OpenOptions::new();
        open.create(true).truncate(true).write(true).mode(0o600).open(&file)?.write_all(settings.as_bytes())?;
        let server = program().context("redis-server is not installed (on Debian: apt-get install redis-server)")?;
        let arguments = ["keep".into(), "--".into(), server.into(), file.into()].into();
        let grace = PATIENCE + Duration::from_secs(5);
        Ok(Process::new(Spec { name: "redis".to_owned(), program: encore.to_owned(), arguments, log, grace }))
    }

    /// Whether it answers now.
    pub async fn is_ready(&self) -> bool {
        self.ask("PING").await.is_ok_and(|answer| answer.contains("+PONG"))
    }

    /// Delete every key, as a drill does.
    pub async fn flush_all(&self) -> Result<()> {
        let answer = self.ask("FLUSHALL").await?;
        anyhow::ensure!(answer.matches("+OK").count() == 2, "Redis answered {answer:?}");
        Ok(())
    }

    /// One inline command after the password, on a connection of its own.
    async fn ask(&self, command: &str) -> Result<String> {
        let ask = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
            let words = format!("AUTH {}\r\n{command}\r\nQUIT\r\n", self.password);
            stream.write_all(words.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            // The last line answers QUIT.
            Ok::<_, std::io::Error>(answer.trim_end().trim_end_matches("+OK").to_owned())
        };
        Ok(timeout(Duration::from_secs(5), ask).await.context("Redis did not answer")??)
    }
}

fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join("redis-server")).find(|file| file.is_file())
}

/// A path as one word of Redis's settings, whatever letters it has.
fn quoted(path: &Path) -> String {
    let letter = |byte: &u8| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    let letters: String = path.as_os_str().as_bytes().iter().map(letter).collect();
    format!("\"{letters}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_spaces_quotes_and_foreign_letters_is_one_word() {
        assert_eq!(quoted(Path::new("/srv/data")), r#""/srv/data""#);
        assert_eq!(quoted(Path::new(r#"/a b/ü"\"#)), r#""/a b/\xc3\xbc\"\\""#);
    }
}
