//! A whole sale as processes: started in the order in which they need each other, stopped in reverse.

use super::part::Part;
use super::places::{Door, Places};
use super::postgres::Postgres;
use super::probe;
use super::process::{Process, Spec};
use super::redis::Redis;
use super::secrets::Secrets;
use super::settings;
use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use raft_store::client::ClientConfig;
use raft_store::tls::Role;
use reqwest::StatusCode;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How long a part may take until it is ready. Generous: the machine may be busy with something else.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// How often PostgreSQL is started anew after it was killed.
const POSTGRES_TRIES: u32 = 10;

/// What to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where everything is kept; an earlier stack's folder goes on where it stopped.
    pub dir: PathBuf,
    /// The binary `encore`.
    pub encore: PathBuf,
    /// Processes of the buy plane.
    pub buys: u8,
    /// Gates.
    pub gates: u8,
    /// Event files to publish.
    pub events: Vec<PathBuf>,
    /// How they are published, as arguments of `encore admin publish`.
    pub publish: Vec<String>,
    /// Publish events that are published already anew, with a new version.
    pub republish: bool,
    /// Ports that must be these.
    pub fixed_ports: Vec<(Part, u16)>,
    /// Ports that are taken at the first start if they are free.
    pub preferred_ports: Vec<(Part, u16)>,
    /// Settings that differ from the stack's own, as `--set` takes them.
    pub overrides: Vec<(Part, String)>,
    /// The log filter of every process.
    pub log_filter: String,
}

/// Who is told what happens while a stack starts or stops.
pub type Progress<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// A running sale. When it is dropped, every process is killed.
pub struct Stack {
    // Dropped first, and in this order's reverse of starting: see `stop`.
    processes: BTreeMap<Part, Process>,
    started: Vec<Part>,
    options: Options,
    places: Places,
    secrets: Secrets,
    http: reqwest::Client,
}

impl Stack {
    /// Start everything and publish the events. When a part fails, all are stopped and the error says which and why.
    pub async fn start(options: Options, progress: Progress<'_>) -> Result<Self> {
        if !options.encore.is_file() {
            bail!("{} does not exist: run `cargo build --package encore`", options.encore.display());
        }
        let mut places = Places::open(&options.dir, progress).await?;
        for (part, port) in &options.fixed_ports {
            places.fix_port(*part, Door::Main, *port)?;
        }
        for (part, port) in &options.preferred_ports {
            if places.known_port(*part, Door::Main).is_none()
                && let Err(error) = places.fix_port(*part, Door::Main, *port)
            {
                tracing::info!(%error, "another port is chosen");
            }
        }
        let secrets = Secrets::open(&places.secret("secrets.json"))?;
        settings::write_keys(&places, &secrets)?;
        let mut stack = Self {
            processes: BTreeMap::new(),
            started: Vec::new(),
            options,
            places,
            secrets,
            http: reqwest::Client::new(),
        };
        stack.prepare()?;
        match stack.bring_up(progress).await {
            Ok(()) => Ok(stack),
            Err(error) => {
                stack.stop(progress).await;
                Err(error)
            }
        }
    }

    /// Choose every port and write every part's settings, so that each knows all the others before any runs.
    fn prepare(&mut self) -> Result<()> {
        for part in self.parts() {
            self.places.port(part, Door::Main)?;
            if matches!(part, Part::Node(_) | Part::Queue | Part::Operators) {
                self.places.port(part, Door::Second)?;
            }
        }
        for part in self.parts() {
            if matches!(part, Part::Node(_)) {
                self.places.make_data(&part.to_string())?;
            }
            settings::write(part, &self.places, &self.secrets, &self.options)?;
            let process = self.process_of(part)?;
            self.processes.insert(part, process);
        }
        Ok(())
    }

    fn parts(&self) -> Vec<Part> {
        let mut parts = vec![Part::Postgres, Part::Redis];
        parts.extend((1..=settings::NODES).map(Part::Node));
        parts.extend([Part::Provider, Part::Queue, Part::Browse]);
        parts.extend((1..=self.options.buys).map(Part::Buy));
        parts.extend([Part::Webhook, Part::Operators, Part::Fulfillment]);
        parts.extend((1..=self.options.gates).map(Part::Gate));
        parts.push(Part::Manifests);
        parts
    }

    fn process_of(&mut self, part: Part) -> Result<Process> {
        let log = self.places.log(part);
        let encore = self.options.encore.clone();
        match part {
            Part::Postgres => self.postgres()?.process(&encore, log),
            Part::Redis => self.redis()?.process(&encore, log),
            _ => {
                let mut arguments = settings::arguments(part, &self.places);
                for (_, set) in self.options.overrides.iter().filter(|(whose, _)| *whose == part) {
                    arguments.extend(["--set".into(), set.into()]);
                }
                let grace = Duration::from_secs(15);
                Ok(Process::new(Spec { name: part.to_string(), program: encore, arguments, log, grace }))
            }
        }
    }

    async fn bring_up(&mut self, progress: Progress<'_>) -> Result<()> {
        progress("starting PostgreSQL, Redis, three store nodes and the payment provider");
        let postgres = self.postgres()?;
        let first: Vec<Part> = self
            .parts()
            .into_iter()
            .filter(|part| matches!(part, Part::Redis | Part::Node(_) | Part::Provider))
            .collect();
        for part in &first {
            self.launch(*part)?;
        }
        postgres.init(&self.places.log(Part::Postgres).with_file_name("initdb.log")).await?;
        self.restart(Part::Postgres).await?;
        postgres.create_database().await?;
        progress("migrating the ledger");
        self.encore(&["migrate"]).await?;
        self.wait_ready(&first).await?;

        progress("starting the waiting room, the API planes, fulfillment and the gate");
        let second: Vec<Part> = self
            .parts()
            .into_iter()
            .filter(|part| !first.contains(part) && !matches!(part, Part::Postgres | Part::Manifests))
            .collect();
        for part in &second {
            self.launch(*part)?;
        }
        for file in self.options.events.clone() {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            progress(&format!("publishing {name}"));
            let file = file.to_string_lossy();
            let mut arguments = vec!["admin", "publish", file.as_ref()];
            arguments.extend(self.options.publish.iter().map(String::as_str));
            if !self.options.republish {
                arguments.push("--unless-published");
            }
            self.encore(&arguments).await?;
        }
        self.wait_ready(&second).await?;
        self.wait_published().await?;
        self.launch(Part::Manifests)?;
        Ok(())
    }

    /// Until the processes that remember the catalogue for a while have seen every event.
    async fn wait_published(&self) -> Result<()> {
        let begun = Instant::now();
        for file in &self.options.events {
            let id = event_id(file)?;
            let browse = format!("{}/api/v1/events/{id}", self.url(Part::Browse));
            // A session that is none is refused as such only once the event is known.
            let queue = format!("{}/api/v1/events/{id}/queue/status?session=none", self.url(Part::Queue));
            for url in [browse, queue] {
                loop {
                    let known = self.http.get(&url).send().await.is_ok_and(|answer| {
                        !matches!(answer.status(), StatusCode::NOT_FOUND | StatusCode::SERVICE_UNAVAILABLE)
                    });
                    if known {
                        break;
                    }
                    if begun.elapsed() > READY_WITHIN {
                        bail!("event {id} was published and is still unknown at {url}");
                    }
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
        Ok(())
    }

    fn launch(&mut self, part: Part) -> Result<()> {
        self.processes.get_mut(&part).with_context(|| format!("{part} is no part of this stack"))?.start()?;
        if !self.started.contains(&part) {
            self.started.push(part);
        }
        Ok(())
    }

    /// Start a part that was stopped or killed, and wait until it is ready.
    pub async fn restart(&mut self, part: Part) -> Result<()> {
        // After a kill PostgreSQL refuses to start until its old backends have noticed and gone.
        let mut tries = if part == Part::Postgres { POSTGRES_TRIES } else { 1 };
        loop {
            self.launch(part)?;
            tries -= 1;
            match self.wait_ready(&[part]).await {
                Err(_) if tries > 0 => sleep(Duration::from_millis(500)).await,
                done => return done,
            }
        }
    }

    /// Start a part that was stopped or killed, without waiting.
    pub fn start_part(&mut self, part: Part) -> Result<()> {
        self.launch(part)
    }

    /// `kill -9`.
    pub async fn kill(&mut self, part: Part) -> Result<()> {
        self.process(part)?.kill().await
    }

    /// Stop one part in order.
    pub async fn stop_part(&mut self, part: Part) -> Result<()> {
        self.process(part)?.stop().await
    }

    /// Stop a part where it stands (`SIGSTOP`), or let it go on.
    pub fn freeze(&mut self, part: Part, frozen: bool) -> Result<()> {
        let process = self.process(part)?;
        if frozen { process.freeze() } else { process.thaw() }
    }

    fn process(&mut self, part: Part) -> Result<&mut Process> {
        self.processes.get_mut(&part).with_context(|| format!("{part} is no part of this stack"))
    }

    /// Wait until these parts are ready.
    pub async fn wait_ready(&mut self, parts: &[Part]) -> Result<()> {
        let (postgres, redis) = (self.postgres()?, self.redis()?);
        let bases: BTreeMap<Part, String> = parts.iter().map(|part| (*part, self.url(*part))).collect();
        let http = self.http.clone();
        let wanted = self.processes.iter_mut().filter(|(part, _)| parts.contains(part));
        let (postgres, redis, http, bases) = (&postgres, &redis, &http, &bases);
        try_join_all(wanted.map(|(part, process)| async move {
            let ready = || async {
                match part {
                    Part::Postgres if postgres.is_ready().await => Ok(()),
                    Part::Redis if redis.is_ready().await => Ok(()),
                    Part::Postgres | Part::Redis => Err("it does not answer".to_owned()),
                    Part::Manifests => Ok(()),
                    _ => probe::ask(http, &bases[part]).await,
                }
            };
            probe::until_ready(process, READY_WITHIN, ready).await
        }))
        .await?;
        Ok(())
    }

    /// Parts that have ended by themselves, and how.
    pub fn fallen(&mut self) -> Vec<(Part, ExitStatus)> {
        let ended = |(part, process): (&Part, &mut Process)| Some((*part, process.ended().ok().flatten()?));
        self.processes.iter_mut().filter_map(ended).collect()
    }

    /// The last lines that a part wrote.
    pub fn last_words(&self, part: Part) -> String {
        self.processes.get(&part).map(Process::last_words).unwrap_or_default()
    }

    /// Start a part that has ended by itself, without waiting; what it left running goes first.
    pub fn revive(&mut self, part: Part) -> Result<()> {
        self.process(part)?.clear();
        self.launch(part)
    }

    /// Stop everything, in the reverse order of starting; what does not end is killed, and said.
    pub async fn stop(&mut self, progress: Progress<'_>) {
        while let Some(part) = self.started.pop() {
            if let Some(process) = self.processes.get_mut(&part)
                && let Err(error) = process.stop().await
            {
                progress(&format!("{error:#}"));
            }
        }
    }

    /// Run `encore` with this stack's operator settings, and return what it prints.
    pub async fn encore(&self, arguments: &[&str]) -> Result<String> {
        let mut command = tokio::process::Command::new(&self.options.encore);
        command.args(arguments).arg("--config").arg(self.operator_config()).stdin(std::process::Stdio::null());
        command.kill_on_drop(true);
        let output = command.output().await.context("encore did not start")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("encore {} failed ({}):\n{said}{why}", arguments.join(" "), output.status);
        }
        Ok(said)
    }

    /// The settings of `encore migrate` and `encore admin` for this stack.
    pub fn operator_config(&self) -> PathBuf {
        settings::operator_config(&self.places)
    }

    /// Where a part serves HTTP, without a slash at the end.
    pub fn url(&self, part: Part) -> String {
        let port = self.places.known_port(part, Door::Main).unwrap_or_default();
        format!("http://127.0.0.1:{port}")
    }

    /// Where a part's operators' listener is.
    pub fn admin_url(&self, part: Part) -> String {
        let port = self.places.known_port(part, Door::Second).unwrap_or_default();
        format!("http://127.0.0.1:{port}")
    }

    /// How an operator's client reaches the store.
    pub fn store(&self) -> ClientConfig {
        settings::store(&self.places, Role::Operator)
    }

    /// The private PostgreSQL.
    pub fn postgres(&self) -> Result<Postgres> {
        let port = self.places.known_port(Part::Postgres, Door::Main).context("PostgreSQL has a port")?;
        Ok(Postgres { data: self.places.data(Part::Postgres), port, password: self.secrets.postgres.clone() })
    }

    /// The private Redis.
    pub fn redis(&self) -> Result<Redis> {
        let port = self.places.known_port(Part::Redis, Door::Main).context("Redis has a port")?;
        Ok(Redis { data: self.places.data(Part::Redis), port, password: self.secrets.redis.clone() })
    }

    /// How many processes the buy plane has.
    pub fn buys(&self) -> u8 {
        self.options.buys
    }

    /// Its keys and passwords.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The binary that its parts run.
    pub fn binary(&self) -> &Path {
        &self.options.encore
    }

    /// Its folders and ports.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The folder of all.
    pub fn dir(&self) -> &Path {
        self.places.dir()
    }
}

/// The number in an event file.
fn event_id(file: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let event: serde_json::Value = serde_json::from_str(&text).with_context(|| format!("{}", file.display()))?;
    event["id"].as_u64().with_context(|| format!("{} has no number", file.display()))
}
