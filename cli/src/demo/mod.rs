//! `encore demo`: a whole sale on this machine, from an empty folder to fans' logins on the screen, and down again in
//! order. Its parts are real processes; only the payment provider is played.

pub mod events;
mod welcome;

use crate::crowd;
use crate::fan::Doors;
use crate::supervise::revive::Reviver;
use crate::supervise::{Options, Part, Stack};
use crate::words;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often the demo looks whether a part has ended by itself.
const WATCH: Duration = Duration::from_millis(500);
/// Where the pages are, if that port is free.
const PAGES_PORT: u16 = 7300;
/// Written into a demo's folder, so that `--fresh` never clears a folder of somebody else's.
const MARK: &str = "this-is-an-encore-demo";
/// Stands in the folder while the events are published as a crowd wants them, so that the next start without one knows.
const CROWD_MARK: &str = "published-for-a-crowd";
/// How a program ends that was stopped by Ctrl-C before it was done.
const INTERRUPTED: u8 = 130;

/// Arguments of `encore demo`.
#[derive(clap::Args, Debug)]
pub struct DemoArguments {
    /// Forget everything of earlier demos in this folder
    #[arg(long)]
    fresh: bool,
    /// Let this many fans storm the hall, then audit, stop, and end with 1 if a rule was broken
    #[arg(long, value_name = "FANS")]
    crowd: Option<u32>,
    /// Where everything is kept [default: /var/lib/encore-demo as root, otherwise ~/.local/share/encore-demo]
    #[arg(long, value_name = "PATH")]
    dir: Option<PathBuf>,
    /// The port of the pages; a free one is chosen when this one is taken and was not asked for [default: 7300]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// The log filter of every process
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log: String,
    /// Stop as soon as everything runs and the addresses were printed
    #[arg(long, hide = true)]
    stop_when_ready: bool,
    /// End when standard input closes
    #[arg(long, hide = true)]
    exit_on_stdin_eof: bool,
}

/// Run the demo until Ctrl-C, or until the crowd is done.
pub async fn run(arguments: DemoArguments) -> Result<ExitCode> {
    let stop = crate::config::shutdown::token(arguments.exit_on_stdin_eof);
    let dir = match &arguments.dir {
        Some(dir) => dir.clone(),
        None => default_dir()?,
    };
    let _lock = open(&dir, arguments.fresh)?;
    let begun = Instant::now();
    let options = options(&arguments, &dir)?;
    let spinner = spinner();
    let say = |text: &str| announce(&spinner, text);
    let mut stack = tokio::select! {
        biased;
        stack = Stack::start(options, &say) => stack?,
        () = stop.cancelled() => {
            spinner.finish_and_clear();
            eprintln!("Stopped while starting.");
            return Ok(interrupted(arguments.crowd.is_some()));
        }
    };
    spinner.finish_and_clear();
    println!("Everything runs after {:.1} s. Data, logs and mail: {}", begun.elapsed().as_secs_f64(), dir.display());
    if arguments.crowd.is_none() {
        as_its_files_say(&dir)?;
    }
    welcome::print(&stack)?;

    let code = if let Some(fans) = arguments.crowd {
        tokio::select! {
            biased;
            stormed = crowd::storm(&stack, fans) => match stormed {
                Ok(code) => code,
                Err(error) => {
                    eprintln!("encore: the crowd failed: {}", words::of(&error));
                    ExitCode::FAILURE
                }
            },
            () = stop.cancelled() => {
                eprintln!("Stopped before the crowd was done: nothing was audited.");
                interrupted(true)
            }
        }
    } else if arguments.stop_when_ready {
        ExitCode::SUCCESS
    } else {
        watch(&mut stack, &stop).await
    };
    eprintln!("Stopping …");
    stack.stop(&|text| eprintln!("{text}")).await;
    eprintln!("Stopped. The data stays; start again to go on with it, or with --fresh to forget it.");
    Ok(code)
}

/// Until somebody asks us to stop, or a part falls.
async fn watch(stack: &mut Stack, stop: &tokio_util::sync::CancellationToken) -> ExitCode {
    println!("Ctrl-C stops everything.");
    let mut reviver = Reviver::default();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return ExitCode::SUCCESS,
            () = tokio::time::sleep(WATCH) => {}
        }
        if let Err(why) = reviver.look_after(stack, Instant::now(), &|text| eprintln!("{text}")) {
            eprintln!("encore: {}", words::of(&why));
            return ExitCode::FAILURE;
        }
    }
}

/// A storm without its audit has not succeeded; a demo that is stopped has.
fn interrupted(crowd: bool) -> ExitCode {
    if crowd { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS }
}

/// The events have been published without a crowd's settings.
fn as_its_files_say(dir: &Path) -> Result<()> {
    let mark = dir.join(CROWD_MARK);
    if !mark.exists() {
        return Ok(());
    }
    fs::remove_file(&mark).with_context(|| format!("{} cannot be removed", mark.display()))
}

fn default_dir() -> Result<PathBuf> {
    if rustix::process::geteuid().is_root() {
        // PostgreSQL runs as another user then, who could not reach a folder in root's home.
        return Ok(PathBuf::from("/var/lib/encore-demo"));
    }
    let home = std::env::home_dir().context("there is no home folder: choose one with --dir")?;
    let data = std::env::var_os("XDG_DATA_HOME").map_or_else(|| home.join(".local/share"), PathBuf::from);
    Ok(data.join("encore-demo"))
}

/// Take the folder for ourselves, empty when `fresh`. The lock lasts as long as the file is open.
fn open(dir: &Path, fresh: bool) -> Result<fs::File> {
    let mark = dir.join(MARK);
    if let Ok(metadata) = mark.metadata()
        && metadata.uid() != rustix::process::geteuid().as_raw()
    {
        bail!(
            "{} is the demo of another user (number {}): choose another folder with --dir, or start as that user",
            dir.display(),
            metadata.uid()
        );
    }
    let is_ours = mark.is_file();
    let is_empty = fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none());
    if !is_ours && !is_empty {
        bail!("{} is not empty and is no demo's folder: choose another with --dir", dir.display());
    }
    fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
    let lock = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&mark);
    let lock = lock.with_context(|| format!("{} cannot be written", mark.display()))?;
    if lock.try_lock().is_err() {
        bail!("another demo runs in {}: stop it first, or choose another folder with --dir", dir.display());
    }
    if fresh {
        for entry in fs::read_dir(dir)?.flatten().filter(|entry| entry.file_name() != MARK) {
            let path = entry.path();
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.with_context(|| format!("{} cannot be removed", path.display()))?;
        }
    }
    Ok(lock)
}

fn options(arguments: &DemoArguments, dir: &Path) -> Result<Options> {
    let fixed_ports = arguments.port.map(|port| (Part::Browse, port)).into_iter().collect();
    let crowd = arguments.crowd.is_some();
    let crowd_mark = dir.join(CROWD_MARK);
    let was_crowd = crowd_mark.exists();
    if crowd {
        // Before anything is published: whatever becomes of this start, the next one knows.
        fs::write(&crowd_mark, "").with_context(|| format!("{} cannot be written", crowd_mark.display()))?;
    }
    Ok(Options {
        dir: dir.to_owned(),
        encore: std::env::current_exe().context("this program has a path")?,
        buys: 1,
        gates: 1,
        events: events::unpack(dir)?,
        // A crowd is there to see holds run out, too.
        publish: if crowd { crowd::PUBLISH.iter().map(|word| (*word).to_owned()).collect() } else { Vec::new() },
        republish: crowd || was_crowd,
        fixed_ports,
        preferred_ports: vec![(Part::Browse, PAGES_PORT)],
        overrides: crowd::overrides(crowd),
        log_filter: arguments.log.clone(),
    })
}

/// Where the doors of a stack are.
pub fn doors(stack: &Stack) -> Doors {
    Doors {
        browse: stack.url(Part::Browse),
        buys: (1..=stack.buys()).map(|number| stack.url(Part::Buy(number))).collect(),
        queue: stack.url(Part::Queue),
    }
}

fn spinner() -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    spinner
        .set_style(ProgressStyle::with_template("{spinner} {msg} ({elapsed})").expect("a template that never changes"));
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

/// On a terminal the line moves; in a log each step is a line.
fn announce(spinner: &ProgressBar, text: &str) {
    if spinner.is_hidden() {
        eprintln!("… {text}");
    } else {
        spinner.set_message(text.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        demo: DemoArguments,
    }

    #[test]
    fn a_port_that_is_none_is_refused_at_once() {
        let refused = Line::try_parse_from(["encore", "--port", "0"]).map(|_| ()).expect_err("no program listens on 0");
        assert!(refused.to_string().contains("0 is not in 1..=65535"), "{refused}");
        assert_eq!(Line::try_parse_from(["encore", "--port", "7300"]).expect("a port").demo.port, Some(7300));
    }

    #[test]
    fn the_folder_of_another_user_is_not_touched() {
        let folder = tempfile::tempdir().expect("a folder");
        let (dir, mark) = (folder.path(), folder.path().join(MARK));
        // The mark of somebody else: ours given away where we may, or a file that is not ours.
        if rustix::process::geteuid().is_root() {
            fs::write(&mark, "").expect("written");
            std::os::unix::fs::chown(&mark, Some(65_534), None).expect("root gives away");
        } else {
            std::os::unix::fs::symlink("/etc/passwd", &mark).expect("linked");
        }
        fs::write(dir.join("ports.json"), "{}").expect("written");
        let refused = open(dir, true).map(|_| ()).expect_err("another user's");
        assert!(refused.to_string().contains("another user"), "{refused}");
        assert!(dir.join("ports.json").exists(), "--fresh has forgotten nothing");
    }

    #[test]
    fn a_start_after_a_crowd_publishes_the_events_as_their_files_say() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = |words: &[&str]| {
            let words = [&["encore"], words].concat();
            options(&Line::try_parse_from(words).expect("arguments").demo, folder.path()).expect("options")
        };
        assert!(!of(&[]).republish, "what is published stays as it is");
        let crowd = of(&["--crowd", "5"]);
        assert!(crowd.republish && !crowd.publish.is_empty());
        for _ in 0..2 {
            let plain = of(&[]);
            assert!(plain.republish && plain.publish.is_empty(), "also when the start before this one failed");
        }
        as_its_files_say(folder.path()).expect("noted");
        assert!(!of(&[]).republish);
    }
}
