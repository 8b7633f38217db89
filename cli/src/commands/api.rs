//! `encore api`: one or more planes of the HTTP contract. Each gets only what it needs: the browse plane no ledger, the
//! webhook plane no Redis.

use super::process;
use crate::config::{LogSettings, ServerLayers, Settings, check};
use anyhow::{Context, Result, bail};
use api::{Admin, Browse, Buy, Planes, Store, Webhook};
use ledger::postgres::Config as LedgerConfig;
use ledger::{Postgres, Sealer};
use queue::leases::Leases;
use queue::token::Verifier;
use raft_store::client::{Client, ClientConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use telemetry::Operations;

/// A plane by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Plane {
    /// Catalogue, layouts, seat maps, streams and the pages.
    Browse,
    /// Holds, payments and tickets.
    Buy,
    /// The payment provider's word.
    Webhook,
}

/// Settings of `encore api`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApiSettings {
    /// Where fans come.
    pub listen: SocketAddr,
    /// Where operators come: `/admin/…`, with an operator's token. Not served when it is not set. Without planes this
    /// process serves operators alone, which keeps the role that may refund out of what fans reach.
    pub admin_listen: Option<SocketAddr>,
    /// Logs.
    pub log: LogSettings,
    /// Which planes run in this process.
    pub planes: Vec<Plane>,
    /// Where the store is.
    pub store: ClientConfig,
    /// The ledger, with this plane's own role (`buy` or `webhook`).
    pub ledger: LedgerConfig,
    /// The ledger for operators, with the role `owner`: fans' planes may not refund. Without it operators cannot either.
    pub admin_ledger: Option<LedgerConfig>,
    /// Where Redis is (`buy`).
    pub redis_url: String,
    /// How long to wait for Redis (`buy`).
    pub redis_timeout_ms: u64,
    /// File with the key set that fans' and operators' tokens are signed with (`buy`, operators).
    pub fan_key_set_file: PathBuf,
    /// The `iss` that those tokens must have.
    pub fan_issuer: String,
    /// The `aud` that those tokens must have.
    pub fan_audience: String,
    /// File with the public key set of passes (`buy`).
    pub pass_key_set_file: PathBuf,
    /// The `iss` of passes.
    pub pass_issuer: String,
    /// The `aud` of passes.
    pub pass_audience: String,
    /// File with the key that opens ticket secrets (`buy`).
    pub sealing_key_file: PathBuf,
    /// Active signing secrets of each provider (`webhook`), such as `stripe = ["whsec_…"]`.
    pub webhook_secrets: BTreeMap<String, Vec<String>>,
    /// The planes.
    pub api: api::Config,
}

impl Default for ApiSettings {
    fn default() -> Self {
        let room = queue::Config::default();
        Self {
            listen: ([127, 0, 0, 1], 7300).into(),
            admin_listen: None,
            log: LogSettings::default(),
            planes: Vec::new(),
            store: ClientConfig::default(),
            ledger: LedgerConfig::default(),
            admin_ledger: None,
            redis_url: room.redis_url,
            redis_timeout_ms: room.redis_timeout_ms,
            fan_key_set_file: room.fan_key_set_file,
            fan_issuer: room.fan_issuer,
            fan_audience: room.fan_audience,
            pass_key_set_file: "pass-keys.json".into(),
            pass_issuer: room.pass_issuer,
            pass_audience: room.pass_audience,
            sealing_key_file: "sealing.key".into(),
            webhook_secrets: BTreeMap::new(),
            api: api::Config::default(),
        }
    }
}

impl Settings for ApiSettings {
    fn log(&self) -> &LogSettings {
        &self.log
    }

    fn check(&self) -> Result<()> {
        check::store(&self.store)?;
        check::ledger("ledger", &self.ledger)?;
        self.admin_ledger.iter().try_for_each(|ledger| check::ledger("admin_ledger", ledger))
    }
}

/// Arguments of `encore api`.
#[derive(clap::Args, Debug)]
pub struct ApiArguments {
    /// Which planes run in this process
    #[arg(long = "plane", value_enum, value_delimiter = ',')]
    planes: Vec<Plane>,
    #[command(flatten)]
    server: ServerLayers,
}

/// Run until asked to stop.
pub async fn run(arguments: ApiArguments) -> Result<()> {
    let mut layers = arguments.server.layers();
    if !arguments.planes.is_empty() {
        layers.set.push(format!("planes={}", serde_json::to_string(&arguments.planes)?));
    }
    let Some(settings) = layers.start::<ApiSettings>()? else { return Ok(()) };
    if settings.planes.is_empty() && settings.admin_listen.is_none() {
        bail!(
            "no plane is chosen: --plane browse, --plane buy, --plane webhook, or several with commas; or admin_listen \
             for the operators alone"
        );
    }
    let shutdown = layers.shutdown();
    let operations = Operations::new("api");
    let listener = process::listen(settings.listen).await?;
    let assembled = Assembled::new(&settings)?;
    let planes = assembled.planes(&settings)?;
    let admin = match settings.admin_listen {
        Some(address) => {
            let (listener, admin) = (process::listen(address).await?, assembled.admin(&settings)?);
            let (config, operations, shutdown) = (settings.api.clone(), operations.clone(), shutdown.clone());
            Some(tokio::spawn(api::serve_admin(config, admin, listener, operations, shutdown)))
        }
        None => None,
    };
    let public = api::serve(settings.api, planes, listener, operations, shutdown.clone());
    let served = async {
        let served = public.await;
        shutdown.cancel();
        if let Some(admin) = admin {
            admin.await?.context("the operators' listener failed")?;
        }
        served.context("the API failed")
    };
    process::bounded(shutdown.clone(), served).await
}

/// Connections that planes of one process share.
struct Assembled {
    store: Arc<dyn Store>,
    ledger: Option<Postgres>,
}

impl Assembled {
    fn new(settings: &ApiSettings) -> Result<Self> {
        let browse_only = settings.planes.iter().all(|plane| *plane == Plane::Browse);
        let ledger = if browse_only { None } else { Some(Postgres::new(&settings.ledger)?) };
        Ok(Self { store: Arc::new(Client::connect(settings.store.clone())), ledger })
    }

    fn ledger(&self) -> Result<Arc<Postgres>> {
        self.ledger.clone().map(Arc::new).context("this plane has a ledger")
    }

    fn planes(&self, settings: &ApiSettings) -> Result<Planes> {
        let has = |plane| settings.planes.contains(&plane);
        Ok(Planes {
            browse: has(Plane::Browse).then(|| Browse { store: self.store.clone() }),
            buy: if has(Plane::Buy) { Some(self.buy(settings)?) } else { None },
            webhook: if has(Plane::Webhook) { Some(self.webhook(settings)?) } else { None },
        })
    }

    fn buy(&self, settings: &ApiSettings) -> Result<Buy> {
        let passes = process::read(&settings.pass_key_set_file)?;
        let passes = Verifier::new(&passes, &settings.pass_issuer, &settings.pass_audience)
            .with_context(|| format!("{}", settings.pass_key_set_file.display()))?;
        let timeout = Duration::from_millis(settings.redis_timeout_ms);
        Ok(Buy {
            store: self.store.clone(),
            fans: fans(settings)?,
            passes: Arc::new(passes),
            leases: Arc::new(Leases::new(&settings.redis_url, timeout).context("redis_url")?),
            ledger: self.ledger()?,
            sealer: Arc::new(Sealer::new(process::read_key(&settings.sealing_key_file)?)),
        })
    }

    fn webhook(&self, settings: &ApiSettings) -> Result<Webhook> {
        let bytes = |secrets: &Vec<String>| secrets.iter().map(|secret| secret.as_bytes().to_vec()).collect();
        let secrets: BTreeMap<String, Vec<Vec<u8>>> =
            settings.webhook_secrets.iter().map(|(provider, secrets)| (provider.clone(), bytes(secrets))).collect();
        if secrets.values().all(Vec::is_empty) {
            bail!("webhook_secrets is empty: no webhook could be believed");
        }
        Ok(Webhook { ledger: self.ledger()?, secrets })
    }

    fn admin(&self, settings: &ApiSettings) -> Result<Admin> {
        let ledger = settings.admin_ledger.as_ref().map(Postgres::new).transpose()?;
        let ledger = ledger.map(|ledger| Arc::new(ledger) as Arc<dyn api::Books>);
        Ok(Admin { store: self.store.clone(), operators: fans(settings)?, ledger })
    }
}

fn fans(settings: &ApiSettings) -> Result<Arc<Verifier>> {
    let keys = process::read(&settings.fan_key_set_file)?;
    let verifier = Verifier::new(&keys, &settings.fan_issuer, &settings.fan_audience)
        .with_context(|| format!("{}", settings.fan_key_set_file.display()))?;
    Ok(Arc::new(verifier))
}
