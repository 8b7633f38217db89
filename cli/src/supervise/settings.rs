//! The settings of every part of a private stack: files that only their owner can read, because some hold passwords.

use super::part::Part;
use super::places::{Door, Places};
use super::postgres::{DATABASE, SUPERUSER};
use super::secrets::Secrets;
use super::stack::Options;
use crate::commands::api::{ApiSettings, Plane};
use crate::commands::fulfillment::FulfillmentSettings;
use crate::commands::gate::GateSettings;
use crate::commands::node::NodeSettings;
use crate::commands::operator::OperatorSettings;
use crate::commands::provider::ProviderSettings;
use crate::commands::queue::QueueSettings;
use crate::config::LogSettings;
use anyhow::{Context, Result};
use domain::ids::NodeId;
use gate::manifest::OrganiserKey;
use ledger::postgres::Config as LedgerConfig;
use raft_store::NodeConfig;
use raft_store::client::ClientConfig;
use raft_store::tls::{Role, TlsFiles};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use telemetry::LogFormat;

/// Nodes of the store.
pub const NODES: u8 = 3;
/// How long the certificates of a stack are valid.
const CERTIFICATE_DAYS: u32 = 3_650;

fn secret_file(path: &Path, text: &str) -> Result<()> {
    let mut open = fs::OpenOptions::new();
    open.create(true).truncate(true).write(true).mode(0o600);
    let written = open.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("{} cannot be written", path.display()))
}

/// The key files that processes read.
pub fn write_keys(places: &Places, secrets: &Secrets) -> Result<()> {
    secret_file(&places.secret("fan-keys.json"), &secrets.fans()?.key_set())?;
    secret_file(&places.secret("pass-key.pem"), &secrets.pass_pem)?;
    secret_file(&places.secret("pass-keys.json"), &secrets.passes()?.key_set())?;
    secret_file(&places.secret("sealing.key"), &secrets.sealing_key)?;
    secret_file(&places.secret("organiser.key"), &secrets.organiser_key)?;
    let nodes: Vec<NodeId> = (1..=NODES).map(|node| NodeId(node.into())).collect();
    crate::certificates::issue(&certificates(places), &nodes, CERTIFICATE_DAYS).map(|_| ())
}

/// What a part is started with.
pub fn arguments(part: Part, places: &Places) -> Vec<OsString> {
    let words: &[&str] = match part {
        Part::Node(_) => &["node"],
        Part::Provider => &["provider-simulator"],
        Part::Queue => &["queue"],
        Part::Browse | Part::Buy(_) | Part::Webhook | Part::Operators => &["api"],
        Part::Fulfillment => &["fulfillment"],
        Part::Gate(_) => &["gate"],
        Part::Manifests => &["admin", "manifest", "--watch"],
        // Servers of others, which are told what they need by their own modules.
        Part::Postgres | Part::Redis => &[],
    };
    let mut arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
    let config = if part == Part::Manifests { operator_config(places) } else { places.config(part) };
    arguments.extend(["--exit-on-stdin-eof".into(), "--config".into(), config.into()]);
    arguments
}

/// The settings of `encore migrate` and `encore admin`.
pub fn operator_config(places: &Places) -> PathBuf {
    places.dir().join("config").join("operator.toml")
}

/// Where clients reach the nodes.
pub fn endpoints(places: &Places) -> Vec<String> {
    let port = |number| places.known_port(Part::Node(number), Door::Second);
    (1..=NODES).filter_map(port).map(|port| format!("127.0.0.1:{port}")).collect()
}

/// How a client of this role reaches the store.
pub fn store(places: &Places, role: Role) -> ClientConfig {
    let tls = Some(TlsFiles::of(&certificates(places), role.word()));
    ClientConfig { tls, ..ClientConfig::with_endpoints(endpoints(places)) }
}

/// Where the certificates of nodes and clients are.
pub fn certificates(places: &Places) -> PathBuf {
    places.secret("tls")
}

/// Write a part's settings. Every port must have been chosen.
pub fn write(part: Part, places: &Places, secrets: &Secrets, options: &Options) -> Result<()> {
    let make = Maker { places, secrets, options };
    match part {
        Part::Postgres | Part::Redis => Ok(()),
        Part::Node(number) => make.file(part, &make.node(number)?),
        Part::Provider => make.file(part, &make.provider()?),
        Part::Queue => make.file(part, &make.queue()?),
        Part::Browse | Part::Buy(_) | Part::Webhook | Part::Operators => make.file(part, &make.api(part)?),
        Part::Fulfillment => make.file(part, &make.fulfillment()?),
        Part::Gate(_) => make.file(part, &make.gate(part)?),
        Part::Manifests => write_file(&operator_config(places), &make.operator()?),
    }
}

fn write_file<T: Serialize>(path: &Path, settings: &T) -> Result<()> {
    // Through JSON's value, so that what is not set can be left out: TOML has no word for it.
    let mut value = serde_json::to_value(settings)?;
    crate::config::redact::drop_nulls(&mut value);
    secret_file(path, &toml::to_string(&value)?)
}

struct Maker<'a> {
    places: &'a Places,
    secrets: &'a Secrets,
    options: &'a Options,
}

impl Maker<'_> {
    fn file<T: Serialize>(&self, part: Part, settings: &T) -> Result<()> {
        write_file(&self.places.config(part), settings)
    }

    fn address(&self, part: Part, door: Door) -> Result<SocketAddr> {
        let port = self.places.known_port(part, door).with_context(|| format!("{part} has no port yet"))?;
        Ok(([127, 0, 0, 1], port).into())
    }

    fn url(&self, part: Part) -> Result<String> {
        Ok(format!("http://{}", self.address(part, Door::Main)?))
    }

    fn log(&self) -> LogSettings {
        LogSettings { format: LogFormat::Json, filter: self.options.log_filter.clone() }
    }

    fn store(&self, role: Role) -> ClientConfig {
        store(self.places, role)
    }

    fn ledger(&self, role: &str, password: &str, max_connections: u32) -> Result<LedgerConfig> {
        let address = self.address(Part::Postgres, Door::Main)?;
        let url = format!("postgres://{role}:{password}@{address}/{DATABASE}");
        Ok(LedgerConfig { url, max_connections, ..LedgerConfig::default() })
    }

    fn redis_url(&self) -> Result<String> {
        Ok(format!("redis://:{}@{}/", self.secrets.redis, self.address(Part::Redis, Door::Main)?))
    }

    fn node(&self, number: u8) -> Result<NodeSettings> {
        let mut peers = BTreeMap::new();
        for peer in 1..=NODES {
            peers.insert(NodeId(peer.into()), self.address(Part::Node(peer), Door::Second)?.to_string());
        }
        let part = Part::Node(number);
        let tls = Some(TlsFiles::of(&certificates(self.places), &part.to_string()));
        let node =
            NodeConfig { id: NodeId(number.into()), data: self.places.data(part), peers, tls, ..NodeConfig::default() };
        Ok(NodeSettings { listen: self.address(part, Door::Main)?, log: self.log(), node })
    }

    fn provider(&self) -> Result<ProviderSettings> {
        let mut settings = ProviderSettings { listen: self.address(Part::Provider, Door::Main)?, ..Default::default() };
        settings.log = self.log();
        let data = self.places.make_data(&Part::Provider.to_string())?;
        settings.provider.journal = data.join("books.jsonl");
        settings.provider.api_key = self.secrets.provider_key.clone();
        settings.provider.webhook_url = format!("{}/api/v1/webhooks/payments/stripe", self.url(Part::Webhook)?);
        settings.provider.webhook_secret = self.secrets.webhook_secret.clone();
        Ok(settings)
    }

    fn queue(&self) -> Result<QueueSettings> {
        let listen = self.address(Part::Queue, Door::Main)?;
        let mut settings =
            QueueSettings { listen, log: self.log(), store: self.store(Role::Reader), ..QueueSettings::default() };
        settings.queue.redis_url = self.redis_url()?;
        settings.queue.fan_key_set_file = self.places.secret("fan-keys.json");
        settings.queue.pass_key_file = self.places.secret("pass-key.pem");
        settings.queue.admin_listen = Some(self.address(Part::Queue, Door::Second)?);
        for buy in 1..=self.options.buys {
            settings.load.buy.push(self.url(Part::Buy(buy))?);
        }
        settings.load.fulfillment.push(self.url(Part::Fulfillment)?);
        Ok(settings)
    }

    fn api(&self, part: Part) -> Result<ApiSettings> {
        let mut settings =
            ApiSettings { listen: self.address(part, Door::Main)?, log: self.log(), ..Default::default() };
        settings.store = self.store(match part {
            Part::Browse => Role::Reader,
            Part::Operators => Role::Operator,
            _ => Role::Service,
        });
        settings.api.public.queue = self.url(Part::Queue)?;
        settings.api.public.buy = self.url(Part::Buy(1))?;
        // The pages may be opened by either name of this machine.
        let pages = self.url(Part::Browse)?;
        settings.api.allowed_origins = vec![pages.replace("127.0.0.1", "localhost"), pages];
        match part {
            Part::Browse => settings.planes = vec![Plane::Browse],
            Part::Webhook => {
                settings.planes = vec![Plane::Webhook];
                settings.ledger = self.ledger("encore_webhook", &self.secrets.webhook, 8)?;
                settings.webhook_secrets =
                    BTreeMap::from([("stripe".to_owned(), vec![self.secrets.webhook_secret.clone()])]);
            }
            Part::Operators => {
                settings.admin_listen = Some(self.address(part, Door::Second)?);
                settings.admin_ledger = Some(self.ledger("encore_owner", &self.secrets.owner, 2)?);
                settings.fan_key_set_file = self.places.secret("fan-keys.json");
            }
            _ => {
                settings.planes = vec![Plane::Buy];
                settings.ledger = self.ledger("encore_buy", &self.secrets.buy, 16)?;
                settings.redis_url = self.redis_url()?;
                settings.fan_key_set_file = self.places.secret("fan-keys.json");
                settings.pass_key_set_file = self.places.secret("pass-keys.json");
                settings.sealing_key_file = self.places.secret("sealing.key");
            }
        }
        Ok(settings)
    }

    fn fulfillment(&self) -> Result<FulfillmentSettings> {
        let listen = self.address(Part::Fulfillment, Door::Main)?;
        let mut settings = FulfillmentSettings { listen, log: self.log(), ..FulfillmentSettings::default() };
        settings.store = self.store(Role::Service);
        settings.ledger = self.ledger("encore_relay", &self.secrets.relay, 8)?;
        settings.provider.base_url = self.url(Part::Provider)?;
        settings.provider.api_key = self.secrets.provider_key.clone();
        settings.sealing_key_file = self.places.secret("sealing.key");
        settings.fulfillment.mail_folder = self.places.mail();
        Ok(settings)
    }

    fn gate(&self, part: Part) -> Result<GateSettings> {
        let mut settings =
            GateSettings { listen: self.address(part, Door::Main)?, log: self.log(), ..Default::default() };
        // One venue: all its gates share one ledger.
        let venue = self.places.make_data("venue")?;
        settings.gate.database = venue.join("gate.sqlite");
        let organiser: OrganiserKey = self.secrets.organiser_key.parse()?;
        settings.gate.manifest_key = organiser.gate_key().to_text();
        Ok(settings)
    }

    fn operator(&self) -> Result<OperatorSettings> {
        let secrets = self.secrets;
        let passwords = [
            ("encore_owner", &secrets.owner),
            ("encore_buy", &secrets.buy),
            ("encore_webhook", &secrets.webhook),
            ("encore_relay", &secrets.relay),
            ("encore_browse", &secrets.browse),
        ];
        let mut gates = Vec::new();
        for gate in 1..=self.options.gates {
            gates.push(self.url(Part::Gate(gate))?);
        }
        let mut settings = OperatorSettings { store: self.store(Role::Operator), gates, ..OperatorSettings::default() };
        settings.ledger = self.ledger(SUPERUSER, &secrets.postgres, 2)?;
        // An operator's command would rather wait than fail.
        settings.ledger.acquire_timeout_ms = 10_000;
        settings.role_passwords = passwords.map(|(role, password)| (role.to_owned(), password.clone())).into();
        settings.sealing_key_file = self.places.secret("sealing.key");
        settings.organiser_key_file = self.places.secret("organiser.key");
        settings.provider_url = Some(self.url(Part::Provider)?);
        Ok(settings)
    }
}
