//! A PostgreSQL of the test's own: fresh data folder, loopback only, never as root, stopped when dropped.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);

/// A running server; see [`Server::url`].
pub struct Server {
    folder: tempfile::TempDir,
    port: u16,
    durable: bool,
    process: Option<Child>,
}

impl Server {
    /// A migrated server. Without `durable` it does not fsync, which only tests of durability would notice.
    pub async fn start(durable: bool) -> Self {
        let folder = tempfile::Builder::new().prefix("encore-ledger-").tempdir().expect("a temporary folder");
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
        let data = folder.path().join("data");
        std::fs::create_dir(&data).expect("a data folder");
        give_away(&data);
        let mut initdb = program("initdb");
        initdb.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D"]);
        let made = initdb.arg(&data).output().expect("initdb starts");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
        let mut server = Self { folder, port, durable, process: None };
        server.run().await;
        ledger::migrate(&server.url("postgres")).await.expect("migrations run");
        server
    }

    /// Where this role connects.
    pub fn url(&self, role: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/postgres", self.port)
    }

    /// A ledger as this role, which waits for a busy machine.
    pub fn ledger(&self, role: &str) -> ledger::Postgres {
        self.impatient_ledger(role, 60_000)
    }

    /// A ledger as this role that waits so long for a connection.
    pub fn impatient_ledger(&self, role: &str, acquire_timeout_ms: u64) -> ledger::Postgres {
        let config = ledger::Config { url: self.url(role), acquire_timeout_ms, ..ledger::Config::default() };
        ledger::Postgres::new(&config).expect("a valid url")
    }

    /// Run a statement as nobody's role: what only a fault could have written.
    #[allow(dead_code, reason = "this file is a part of several tests, of which some write nothing of their own")]
    pub fn damage(&self, sql: &str) {
        let mut psql = program("psql");
        psql.args(["--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-c", sql]).arg(self.url("postgres"));
        let output = psql.output().expect("psql starts");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Start it (again) and wait until it answers.
    pub async fn run(&mut self) {
        let port = self.port.to_string();
        let fsync = if self.durable { "fsync=on" } else { "fsync=off" };
        let mut postgres = program("postgres");
        postgres.arg("-D").arg(self.data()).args(["-p", &port, "-h", "127.0.0.1"]);
        postgres.args(["-c", "unix_socket_directories=", "-c", fsync, "-c", "max_connections=60"]);
        postgres.args(["-c", "shared_buffers=16MB"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = postgres.spawn().expect("postgres starts");
        let ledger = self.impatient_ledger("postgres", 2_000);
        let deadline = Instant::now() + DEADLINE;
        while ledger.ping().await.is_err() {
            assert!(Instant::now() < deadline, "PostgreSQL did not answer");
            // It refuses to start while backends of a killed one are still there.
            if process.try_wait().expect("a child can be asked").is_some() {
                process = postgres.spawn().expect("postgres starts");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.process = Some(process);
        ledger.close().await;
    }

    /// Kill it at once, as a power cut would.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // The postmaster's children notice that it is gone and leave.
            process.kill().expect("kill");
            process.wait().expect("wait");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let stop = program("pg_ctl").args(["stop", "-m", "immediate", "-D"]).arg(self.data()).output();
        let stopped = stop.is_ok_and(|output| output.status.success());
        if let Some(mut process) = self.process.take() {
            if !stopped {
                let _gone = process.kill();
            }
            let _status = process.wait();
        }
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}

/// User and group under which PostgreSQL runs when we are root.
fn account() -> (u32, u32) {
    let id = |flag| {
        let output = Command::new("id").args([flag, "postgres"]).output().expect("id");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("an ordinary user named postgres")
    };
    (id("-u"), id("-g"))
}

fn give_away(folder: &Path) {
    if is_root() {
        let (user, group) = account();
        std::os::unix::fs::chown(folder, Some(user), Some(group)).expect("chown");
    }
}

fn program(name: &str) -> Command {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> =
        debian.map(|version| version.path().join("bin").join(name)).filter(|p| p.exists()).collect();
    found.sort();
    let mut command = Command::new(found.pop().unwrap_or_else(|| PathBuf::from(name)));
    command.current_dir("/").stdin(Stdio::null());
    if is_root() {
        let (user, group) = account();
        command.uid(user).gid(group);
    }
    command
}
