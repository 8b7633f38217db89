//! Configuration in layers: what the program assumes, then a file, then the environment, then flags. The last word wins,
//! a name that nobody knows is refused, and `--print-config` shows the result with every secret hidden.

pub mod check;
pub mod redact;
pub mod shutdown;

use anyhow::{Context, Result, bail};
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::net::SocketAddr;
use std::path::PathBuf;
use telemetry::LogFormat;
use tokio_util::sync::CancellationToken;

/// What every process can be told.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Layers {
    /// Read settings from this TOML file [env: ENCORE_CONFIG]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Set one setting, such as `--set store.endpoints='["10.0.0.1:7000"]'`; stronger than file and environment
    #[arg(long = "set", value_name = "NAME=VALUE", global = true)]
    pub set: Vec<String>,
    /// Show the settings that would be used, secrets hidden, and end
    #[arg(long, global = true)]
    pub print_config: bool,
    /// End when standard input closes: a supervisor's way to take its children with it
    #[arg(long, hide = true, global = true)]
    pub exit_on_stdin_eof: bool,
}

/// What a process that listens can be told besides.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ServerLayers {
    /// Serve HTTP here
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    layers: Layers,
}

impl ServerLayers {
    /// All of them.
    pub fn layers(mut self) -> Layers {
        let listen = self.listen.map(|listen| format!("listen=\"{listen}\""));
        self.layers.set.extend(listen);
        self.layers
    }
}

/// Part of every process's settings.
#[derive(Clone, Debug, Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// `json` or `text`.
    pub format: LogFormat,
    /// In the form of `RUST_LOG`.
    pub filter: String,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".to_owned() }
    }
}

/// Settings of one kind of process.
pub trait Settings: Serialize + DeserializeOwned + Default {
    /// Its logs.
    fn log(&self) -> &LogSettings;

    /// What no process could work with, in words.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

impl Layers {
    /// The settings of all layers.
    pub fn load<T: Settings>(&self) -> Result<T> {
        let known = names(&T::default())?;
        let environment = Env::prefixed("ENCORE_").split("__").filter(move |key| {
            let first = key.as_str().split('.').next().unwrap_or_default().to_ascii_lowercase();
            known.contains(&first)
        });
        let mut layers = Figment::from(Serialized::defaults(T::default()));
        let file = self.file();
        if let Some(file) = &file {
            if !file.is_file() {
                bail!("the configuration file {} does not exist", file.display());
            }
            layers = layers.merge(Toml::file_exact(file));
        }
        layers = layers.merge(environment);
        for setting in &self.set {
            layers = layers.merge(Toml::string(&as_toml(setting)?));
        }
        // By way of JSON, whose maps may have numbers for keys, as node ids are; figment's may not.
        let merged: serde_json::Value = layers.extract().context("the configuration cannot be read")?;
        let valid = serde_json::from_value(merged);
        let place = file.map_or_else(String::new, |file| format!(" ({})", file.display()));
        let checked = valid.map_err(anyhow::Error::from).and_then(|settings: T| {
            check::log(settings.log())?;
            settings.check()?;
            Ok(settings)
        });
        checked.with_context(|| format!("the configuration{place} is not valid"))
    }

    /// The flag's file, or the environment's; an empty variable is as good as none.
    fn file(&self) -> Option<PathBuf> {
        let named = || std::env::var_os("ENCORE_CONFIG").filter(|name| !name.is_empty()).map(PathBuf::from);
        self.config.clone().or_else(named)
    }

    /// Cancelled when this process should end. Call it once, inside the runtime.
    pub fn shutdown(&self) -> CancellationToken {
        shutdown::token(self.exit_on_stdin_eof)
    }

    /// Load, then either show the settings (`None`: end now) or start logging and return them.
    pub fn start<T: Settings>(&self) -> Result<Option<T>> {
        let settings: T = self.load()?;
        if self.print_config {
            print!("{}", redact::shown(&settings)?);
            return Ok(None);
        }
        telemetry::init_tracing(settings.log().format, &settings.log().filter);
        Ok(Some(settings))
    }
}

/// The names at the top of a settings type: only those are taken from the environment, which others use too.
fn names<T: Serialize>(settings: &T) -> Result<Vec<String>> {
    match serde_json::to_value(settings)? {
        serde_json::Value::Object(fields) => Ok(fields.keys().cloned().collect()),
        _ => bail!("settings are a table"),
    }
}

/// `store.endpoints=["a"]` as a line of TOML; a value that is not TOML is taken as text.
fn as_toml(setting: &str) -> Result<String> {
    let (name, value) = setting.split_once('=').with_context(|| format!("--set wants NAME=VALUE, not {setting:?}"))?;
    let line = format!("{name} = {value}");
    if toml::from_str::<toml::Table>(&line).is_ok() {
        return Ok(line);
    }
    Ok(format!("{name} = {}", toml::Value::String(value.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Serialize, Deserialize, Default)]
    #[serde(deny_unknown_fields, default)]
    struct Sample {
        log: LogSettings,
        nodes: Vec<String>,
        words: String,
    }

    impl Settings for Sample {
        fn log(&self) -> &LogSettings {
            &self.log
        }
    }

    #[test]
    fn a_flag_is_stronger_than_the_file_and_unknown_names_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.toml");
        std::fs::write(&file, "words = \"file\"\nnodes = [\"a\"]\n").expect("written");
        let set = vec!["words=a flag".to_owned(), "log.filter=debug".to_owned()];
        let layers = Layers { config: Some(file.clone()), set, ..Layers::default() };
        let sample: Sample = layers.load().expect("valid");
        assert_eq!(
            (sample.words.as_str(), sample.nodes.as_slice(), sample.log.filter.as_str()),
            ("a flag", &["a".to_owned()][..], "debug")
        );

        std::fs::write(&file, "wrods = \"file\"\n").expect("written");
        let error = layers
            .load::<Sample>()
            .map(|_| ())
            .expect_err("a misspelt name")
            .chain()
            .map(|e| e.to_string())
            .collect::<String>();
        assert!(error.contains("wrods"), "{error}");
    }

    #[test]
    fn what_no_process_could_work_with_is_refused_by_its_name() {
        let load = |set: &str| {
            let layers = Layers { set: vec![set.to_owned()], ..Layers::default() };
            layers.load::<crate::commands::operator::OperatorSettings>().map(|_| ())
        };
        load("store.endpoints=[\"node-a:7001\"]").expect("a node");
        for (set, name) in [
            ("store.endpoints=[]", "store.endpoints"),
            ("store.endpoints=[\"http://node-a:7001/\"]", "store.endpoints"),
            ("store.request_timeout_ms=0", "store.request_timeout_ms"),
            ("ledger.url=x", "ledger.url"),
            ("log.filter=%%%", "log.filter"),
        ] {
            let refused = crate::words::of(&load(set).expect_err(set));
            assert!(refused.contains(name), "{set}: {refused}");
        }
    }
}
