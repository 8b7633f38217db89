//! A private PostgreSQL: its own data folder and port, durable settings, passwords only we know, never as root.

use super::keep::PATIENCE;
use super::process::{Process, Spec};
use super::users::{self, Account};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;

/// The superuser of the private server.
pub const SUPERUSER: &str = "encore";
/// The database of the private server.
pub const DATABASE: &str = "encore";

/// What a private server needs to know.
pub struct Postgres {
    /// Where its data is.
    pub data: PathBuf,
    /// Its port on the loopback.
    pub port: u16,
    /// The superuser's password.
    pub password: String,
}

impl Postgres {
    /// Where the superuser connects.
    pub fn url(&self) -> String {
        self.url_for(SUPERUSER, &self.password)
    }

    /// Where another role connects.
    pub fn url_for(&self, role: &str, password: &str) -> String {
        format!("postgres://{role}:{password}@127.0.0.1:{}/{DATABASE}", self.port)
    }

    /// Make the data folder, unless it is there.
    pub async fn init(&self, log: &Path) -> Result<()> {
        if self.data.join("PG_VERSION").is_file() {
            return Ok(());
        }
        let account = users::for_postgres()?;
        // Made under another name: half a cluster, left by somebody who was killed, is never taken for a whole one.
        let draft = self.data.with_extension("draft");
        match fs::remove_dir_all(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("{} cannot be removed", draft.display()));
            }
            _ => {}
        }
        fs::create_dir_all(&draft).with_context(|| format!("{} cannot be made", draft.display()))?;
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o700))?;
        let password_file = self.data.with_extension("password");
        fs::OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&password_file)?
            .write_all(self.password.as_bytes())?;
        if let Some(account) = account {
            if let Some(folder) = users::blocked_by(&self.data) {
                bail!(
                    "PostgreSQL must not run as root, and the user it runs as cannot pass {}. \
                     Choose a folder that others can reach, such as --dir /var/lib/encore-demo",
                    folder.display()
                );
            }
            users::give(&draft, account)?;
            users::give(&password_file, account)?;
        }
        let mut initdb = command(account, &program("initdb")?);
        initdb.arg("--pgdata").arg(&draft).arg("--pwfile").arg(&password_file).args([
            "--username",
            SUPERUSER,
            "--auth",
            "scram-sha-256",
            "--encoding",
            "UTF8",
            "--locale",
            "C",
            "--no-sync",
        ]);
        let output = initdb.output().await.context("initdb did not start")?;
        fs::remove_file(&password_file)?;
        fs::write(log, [&output.stdout[..], &output.stderr[..]].concat())?;
        if !output.status.success() {
            bail!("initdb failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        fs::rename(&draft, &self.data).with_context(|| format!("{} cannot be made", self.data.display()))
    }

    /// The server's process, not started.
    pub fn process(&self, encore: &Path, log: PathBuf) -> Result<Process> {
        let mut arguments: Vec<OsString> = ["keep", "--stop-signal", "int"].map(OsString::from).into();
        if let Some(account) = users::for_postgres()? {
            arguments.extend([OsString::from("--user"), format!("{}:{}", account.user, account.group).into()]);
        }
        arguments.extend(["--".into(), program("postgres")?.into(), "-D".into(), self.data.clone().into()]);
        let port = format!("port={}", self.port);
        // Durable: fsync, full_page_writes and synchronous_commit are stated, so that no default can weaken them.
        let settings = [
            port.as_str(),
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "max_connections=150",
            "shared_buffers=64MB",
            "fsync=on",
            "full_page_writes=on",
            "synchronous_commit=on",
            "log_min_messages=warning",
            "log_timezone=UTC",
            "timezone=UTC",
        ];
        arguments.extend(settings.into_iter().flat_map(|setting| [OsString::from("-c"), setting.into()]));
        let grace = PATIENCE + Duration::from_secs(5);
        Ok(Process::new(Spec { name: "postgres".to_owned(), program: encore.to_owned(), arguments, log, grace }))
    }

    /// Whether it takes connections now.
    pub async fn is_ready(&self) -> bool {
        let Ok(program) = program("pg_isready") else { return false };
        let mut ask = Command::new(program);
        ask.args(["--quiet", "--host", "127.0.0.1", "--port", &self.port.to_string()]);
        ask.status().await.is_ok_and(|status| status.success())
    }

    /// Make the database, unless it is there.
    pub async fn create_database(&self) -> Result<()> {
        let mut create = Command::new(program("createdb")?);
        create
            .args(["--host", "127.0.0.1", "--port", &self.port.to_string(), "--username", SUPERUSER, DATABASE])
            .env("PGPASSWORD", &self.password);
        let output = create.output().await.context("createdb did not start")?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() && !said.contains("already exists") {
            bail!("createdb failed: {}", said.trim());
        }
        Ok(())
    }
}

fn command(account: Option<Account>, program: &Path) -> Command {
    let mut command = std::process::Command::new(program);
    if let Some(account) = account {
        use std::os::unix::process::CommandExt;
        command.gid(account.group).uid(account.user).current_dir("/");
    }
    Command::from(command)
}

/// One of PostgreSQL's programs. Debian keeps the server's outside the path, by version.
pub fn program(name: &str) -> Result<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    if let Ok(versions) = fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    let number = |folder: &PathBuf| {
        let version = folder.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        version.and_then(|version| version.parse::<u32>().ok())
    };
    folders.sort_by_key(|folder| std::cmp::Reverse(number(folder)));
    folders.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    let found = folders.into_iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    found.with_context(|| format!("PostgreSQL's {name} is not installed (on Debian: apt-get install postgresql)"))
}
