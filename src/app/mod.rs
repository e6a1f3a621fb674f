//! Builds the parts once, starts the roles, and drains them in order.

mod components;
mod connections;
mod conversation;
mod definitions;
mod descriptors;
mod error;
mod listen;
mod own_addresses;
mod reload;
mod role;
mod serve_http;
mod supervisor;

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use error::AppError;
pub use role::Role;

use components::{Components, Dependencies, api_of};
use descriptors::Descriptors;
use listen::{guarded, listen_http, listen_tcp};
use reload::Reloadable;
use supervisor::{Ended, Supervisor};

use access::Guard;
use api::WaitingWorkers;
use config::{Changes, Config};
use faults::pause::{Point, point};
use http_server::min_rate::MinRate;
use ingest::{Committer, Watermark};
use outbound::outgoing::Lookup;
use processor::{OnArrival, Processor, Transform, Transforms};
use redis_client::embedded::EmbeddedRedis;
use sender::{
    Sender,
    reporter::{Owned, Reporter},
};
use store::{Store, WakeKind};

/// Reseq, not yet started. As a library: register transforms, then call [`Reseq::start`].
pub struct Reseq {
    /// The unique name of this process.
    pod: String,
    config: Config,
    roles: HashSet<Role>,
    transforms: HashMap<String, Arc<dyn Transform>>,
    metrics: Option<PrometheusHandle>,
    lookup: Option<Arc<dyn Lookup>>,
}

/// A running Reseq.
pub struct Running {
    /// The address of the HTTP listener.
    pub http: SocketAddr,
    /// The address of the HTTP listener for operators, if there is one.
    pub admin: Option<SocketAddr>,
    /// The addresses of the TCP listeners, in the order of the configuration.
    pub tcp: Vec<SocketAddr>,
    stop: CancellationToken,
    /// The configuration at the start, and the configuration of the last reload.
    configs: [Config; 2],
    reloadable: Reloadable,
    /// `None` after the end of Reseq was reported.
    whole: Option<JoinHandle<Result<(), AppError>>>,
}

impl Running {
    /// Resolves when Reseq has ended, and returns the cause. Call it only once.
    pub async fn ended(&mut self) -> Result<(), AppError> {
        let Some(whole) = &mut self.whole else { return Ok(()) };
        let ended = whole.await;
        self.whole = None;
        match ended {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => Err(AppError::Ended { what: "main task" }),
            // The runtime is shutting down.
            Err(_) => Ok(()),
        }
    }

    /// Applies the changed fields that need no restart, and returns which fields have changed. The caller applies
    /// changes of the log.
    pub fn reload(&mut self, config: Config) -> Changes {
        self.reloadable.reload(&config);
        let [at_start, last] = &mut self.configs;
        let changes = Changes {
            reloaded: last.changes_in(&config).reloaded,
            at_start: at_start.changes_in(&config).at_start,
        };
        *last = config;
        changes
    }

    /// Drains and stops Reseq.
    pub async fn stop(mut self) -> Result<(), AppError> {
        self.stop.cancel();
        self.ended().await
    }
}

impl Reseq {
    /// Reseq with this configuration and all roles.
    pub fn new(config: Config) -> Reseq {
        let roles = Role::ALL.into_iter().collect();
        let (pod, transforms) = (store::pod_name(), HashMap::new());
        Reseq { pod, config, roles, transforms, metrics: None, lookup: None }
    }

    /// Uses this name for the process in the list of pods, instead of another random name.
    pub(crate) fn named(mut self, pod: String) -> Reseq {
        self.pod = pod;
        self
    }

    /// Runs only these roles.
    pub fn roles(mut self, roles: impl IntoIterator<Item = Role>) -> Reseq {
        self.roles = roles.into_iter().collect();
        self
    }

    /// Registers a transform written in Rust; destinations name it with
    /// `transform = { kind = "native", name = "…" }`.
    pub fn transform(mut self, name: &str, transform: impl Transform + 'static) -> Reseq {
        self.transforms.insert(name.to_owned(), Arc::new(transform));
        self
    }

    /// Serves these metrics at `/metrics`.
    pub fn metrics(mut self, handle: PrometheusHandle) -> Reseq {
        self.metrics = Some(handle);
        self
    }

    /// Uses `lookup` to resolve the host names of receivers and transforms, instead of the system.
    pub fn lookup(mut self, lookup: impl Lookup + 'static) -> Reseq {
        self.lookup = Some(Arc::new(lookup));
        self
    }

    /// Starts all parts. When it returns, the listeners are open.
    pub async fn start(self) -> Result<Running, AppError> {
        if jq::is_meant_as_runner() {
            return Err(AppError::NoJqRunner);
        }
        let stop = CancellationToken::new();
        let mut config = self.config;
        let configs = [config.clone(), config.clone()];
        tls::check(&config)?;
        let descriptors = Descriptors::share(&config)?;
        let mut embedded = EmbeddedRedis::start_if_wanted(&mut config.redis).await?;
        let background = CancellationToken::new();
        let (supervisor, ended) = Supervisor::new();
        let given = Dependencies {
            pod: self.pod,
            roles: self.roles.clone(),
            transforms: self.transforms,
            metrics: self.metrics,
            clients: descriptors.clients(&config.outgoing, self.lookup)?,
        };
        let parts = Components::build(&config, given, &background, &supervisor).await;
        let started = match parts {
            Ok(parts) => {
                if embedded.as_mut().is_some_and(EmbeddedRedis::take_clean) {
                    parts.store.vouch().await;
                }
                Server::start(&config, &descriptors, parts, &self.roles, stop.clone(), &supervisor)
                    .await
            }
            Err(error) => Err(error),
        };
        let whole = match started {
            Ok(whole) => whole,
            Err(error) => {
                stop.cancel();
                background.cancel();
                stop_redis(embedded).await;
                return Err(error);
            }
        };
        let (http, admin, tcp) = (whole.http, whole.admin, whole.tcp.clone());
        let reloadable = whole.reloadable.clone();
        let whole = tokio::spawn(whole.run(embedded, ended, stop.clone(), config.shutdown_ms));
        Ok(Running { http, admin, tcp, stop, configs, reloadable, whole: Some(whole) })
    }
}

async fn stop_redis(embedded: Option<EmbeddedRedis>) {
    if let Some(embedded) = embedded
        && let Err(error) = embedded.stop().await
    {
        tracing::error!(%error, "the embedded Redis did not stop");
    }
}

/// All running parts.
struct Server {
    store: Store,
    http: SocketAddr,
    admin: Option<SocketAddr>,
    tcp: Vec<SocketAddr>,
    /// The listeners. They stop first, and still answer the requests that they have accepted.
    listeners: TaskTracker,
    /// Group commit. It ends when all listeners are closed.
    commits: TaskTracker,
    /// Processor and sender.
    roles: TaskTracker,
    background: CancellationToken,
    reloadable: Reloadable,
}

impl Server {
    async fn start(
        config: &Config,
        descriptors: &Descriptors,
        parts: Components,
        roles: &HashSet<Role>,
        stop: CancellationToken,
        supervisor: &Supervisor,
    ) -> Result<Server, AppError> {
        let (listeners, commits, running) =
            (TaskTracker::new(), TaskTracker::new(), TaskTracker::new());
        let guard = Guard::new(parts.catalog.clone(), &config.auth);
        guarded(config, &guard).await?;
        let noting = guard.clone().note_uses(parts.store.clone(), parts.background.clone());
        tokio::spawn(supervisor.watch("notes of the use of tokens", noting));
        let api = api_of(config, &parts, &stop, &listeners);
        let mut routes = api::router(api.clone());
        routes = routes.merge(api::console::router(api::console::Sources {
            store: parts.store.clone(),
            catalog: parts.catalog.clone(),
            stop: stop.clone(),
            tasks: listeners.clone(),
        }));
        let mut tcp = Vec::new();
        let on_arrival = OnArrival::default();
        if roles.contains(&Role::Ingest) {
            let (store, catalog) = (parts.store.clone(), parts.catalog.clone());
            let watermark = Watermark::new(store.keys().partitions());
            let (percent, end) = (config.ingest.memory_high_percent, parts.background.clone());
            let watching = watermark.clone().watch(store.clone(), percent, end);
            tokio::spawn(supervisor.watch("watermark", watching));
            let committer = Committer::new(
                store,
                catalog,
                &config.ingest,
                config.http.body_bytes_max,
                watermark,
                (
                    parts.due.clone(),
                    vec![Arc::new(on_arrival.clone()), Arc::new(WaitingWorkers(api))],
                    commits.clone(),
                ),
                descriptors.processes,
            );
            let rates = ingest::rates::Rates::default();
            routes = routes.merge(ingest::http::router(ingest::http::Ingest {
                committer: committer.clone(),
                limits: ingest::json::Limits::of(&config.http),
                batch_bytes_max: config.http.batch_bytes_max,
                rates: rates.clone(),
                stop: stop.clone(),
            }));
            let (connections_max, of_tcp) = (descriptors.tcp, (committer, guard.clone(), rates));
            tcp =
                listen_tcp(config, connections_max, of_tcp, &listeners, &stop, supervisor).await?;
        } else {
            routes = routes.merge(api::without_ingest());
        }
        let reloadable = Reloadable::new(config, guard.clone(), parts.clients.outgoing().clone());
        let of_http = (routes, guard, parts.store.clone(), reloadable.by_address.clone());
        let (http, admin, all) =
            listen_http(config, descriptors, of_http, &listeners, &stop, supervisor).await?;
        parts.clients.outgoing().note_listeners(tcp.iter().copied().chain(all).collect());
        // The roles get only a part of shutdown_ms, because other parts must stop after them.
        let drain = Duration::from_millis(config.shutdown_ms) * 7 / 10;
        if roles.contains(&Role::Processor) {
            let processor = Processor {
                store: parts.store.clone(),
                catalog: parts.catalog.clone(),
                config: config.processor.clone(),
                transforms: Transforms::new(
                    parts.clients.clone(),
                    config.http.body_bytes_max,
                    parts.transforms,
                    descriptors.processes,
                ),
                due: parts.due.clone(),
                on_arrival,
            };
            let processing =
                processor.run(parts.wakes.listen(WakeKind::Waiting), stop.clone(), drain);
            running.spawn(supervisor.watch("processor", processing));
        }
        let owned = Owned::default();
        let reporter = Reporter::new(parts.store.clone(), parts.catalog.clone(), owned.clone());
        let reporting = reporter.run(parts.background.clone());
        tokio::spawn(supervisor.watch("reporter", reporting));
        if roles.contains(&Role::Sender) {
            let sender = Sender {
                owned,
                store: parts.store.clone(),
                catalog: parts.catalog.clone(),
                config: config.sender.clone(),
                clients: parts.clients.clone(),
                json_depth_max: config.http.json_depth_max,
            };
            let sending = sender.run(parts.wakes.listen(WakeKind::Releasable), stop.clone(), drain);
            running.spawn(supervisor.watch("sender", sending));
        }
        let admin_address = admin.map(tracing::field::display);
        let tcp_addresses = tcp.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let tcp_addresses = Some(tcp_addresses.as_str()).filter(|all| !all.is_empty());
        tracing::info!(%http, admin = admin_address, tcp = tcp_addresses, "Reseq runs");
        let (store, background) = (parts.store, parts.background);
        let roles = running;
        Ok(Server { store, http, admin, tcp, listeners, commits, roles, background, reloadable })
    }

    /// Runs until `stop`, until the embedded Redis ends, or until a part ends unexpectedly.
    async fn run(
        self,
        mut embedded: Option<EmbeddedRedis>,
        mut ended: Ended,
        stop: CancellationToken,
        shutdown_ms: u64,
    ) -> Result<(), AppError> {
        let died = async {
            match &mut embedded {
                Some(redis) => redis.exited().await,
                None => std::future::pending().await,
            }
        };
        let failure = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            error = died => Some(AppError::from(error)),
            Some(what) = ended.recv() => Some(AppError::Ended { what }),
        };
        stop.cancel();
        let deadline = Instant::now() + Duration::from_millis(shutdown_ms);
        let has_redis = !matches!(failure, Some(AppError::Embedded(_)));
        if has_redis {
            tracing::info!(shutdown_ms, "draining");
            point(Point::ShutdownDraining).await;
            self.drain(deadline).await;
            if let Some(redis) = &mut embedded
                && self.store.is_unowned().await
            {
                redis.nobody_sends();
            }
        }
        self.background.cancel();
        if has_redis {
            stop_redis(embedded).await;
            tracing::info!("drained");
        }
        failure.map_or(Ok(()), Err)
    }

    /// Waits until all parts have ended, upstream first, but not past `deadline`.
    async fn drain(&self, deadline: Instant) {
        let parts = [
            ("listeners", &self.listeners),
            ("group commit", &self.commits),
            ("roles", &self.roles),
        ];
        for (what, tracker) in parts {
            tracker.close();
            if tokio::time::timeout_at(deadline, tracker.wait()).await.is_err() {
                tracing::warn!(what, "did not end within shutdown_ms; leases and retries cover it");
            }
        }
    }
}

/// The minimum speed at which a body or frame must arrive.
fn pace_of(config: &Config) -> MinRate {
    let window = Duration::from_millis(config.http.body_window_ms);
    MinRate::new(config.http.body_bytes_per_second_min, window)
}
