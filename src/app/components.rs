//! The parts that the roles share: the store, the catalog, the clients, and the state of the API.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use api::{Api, Tails};
use config::Config;
use metrics_exporter_prometheus::PrometheusHandle;
use outbound::http_client::Clients;
use processor::Transform;
use store::{About, Catalog, DueTimer, InFile, Keyring, Store, WakeKind, Wakes};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    AppError, Role,
    definitions::{self, FileWriter},
    own_addresses::{self, RedisAddresses},
    supervisor::Supervisor,
};

/// The inputs for the parts, besides the configuration.
pub(super) struct Dependencies {
    pub(super) pod: String,
    pub(super) roles: HashSet<Role>,
    pub(super) transforms: HashMap<String, Arc<dyn Transform>>,
    pub(super) metrics: Option<PrometheusHandle>,
    pub(super) clients: Clients,
}

/// The parts that all roles share.
pub(super) struct Components {
    pub(super) store: Store,
    pub(super) catalog: Catalog,
    pub(super) in_file: InFile,
    pub(super) wakes: Wakes,
    pub(super) due: DueTimer,
    pub(super) clients: Clients,
    pub(super) transforms: HashMap<String, Arc<dyn Transform>>,
    pub(super) metrics: Option<PrometheusHandle>,
    /// Ends the background tasks. Cancelled once the roles have drained.
    pub(super) background: CancellationToken,
}

impl Components {
    pub(super) async fn build(
        config: &Config,
        given: Dependencies,
        background: &CancellationToken,
        supervisor: &Supervisor,
    ) -> Result<Components, AppError> {
        let Dependencies { pod, roles, transforms, metrics, clients } = given;
        let owner_lease = Duration::from_millis(config.sender.lease_ms);
        let keyring = Keyring::new(&config.secrets.keys()?);
        let (store, fitness) = Store::open_with(&config.redis, owner_lease, keyring, pod).await?;
        let (redis, redis_version) = (config.redis.url_masked(), &fitness.version);
        tracing::info!(redis, redis_version, "connected to Redis");
        fitness.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let about = About { roles: Role::names(&roles), address: config.http.listen.to_string() };
        let presence = store.clone().stay(about, background.clone());
        tokio::spawn(supervisor.watch("presence", presence));
        let watching = store.clone().watch_rights(background.clone());
        tokio::spawn(supervisor.watch("check of rights", watching));
        let watching = store.clone().watch_damage(background.clone());
        tokio::spawn(supervisor.watch("check for damage", watching));
        let wakes = Wakes::default();
        own_addresses::note_listeners(clients.outgoing(), config).await?;
        let of_redis =
            RedisAddresses::new(store.clone(), config.redis.clone(), clients.outgoing().clone());
        let noting = of_redis.keep_noted(background.clone()).await;
        tokio::spawn(supervisor.watch("addresses of Redis", noting));
        definitions::check_addresses(clients.outgoing(), &config.destinations).await?;
        let writer = FileWriter::new(store.clone(), config);
        let later = definitions::define_destinations(&writer, &config.destinations).await?;
        let catalog = Catalog::load(store.clone()).await?;
        let following =
            catalog.clone().follow(wakes.listen(WakeKind::Definitions), background.clone());
        tokio::spawn(supervisor.watch("catalog", following));
        let listening = wakes.clone().run(store.clone(), background.clone());
        tokio::spawn(supervisor.watch("listener for wake-ups", listening));
        definitions::define_topics(&store, &catalog, &config.topics).await?;
        let in_file = InFile::new(
            catalog.clone(),
            &config.destinations,
            &config.topics,
            config.definitions.file,
        );
        let author = definitions::author(&store);
        catalog.complete_all_shards(&author).await;
        let keeping = catalog.clone().keep_shards(author, background.clone());
        tokio::spawn(supervisor.watch("definitions of shards", keeping));
        let (of_file, end) = (in_file.clone(), background.clone());
        let keeping = definitions::keep_in_force(writer, later, of_file, end);
        tokio::spawn(supervisor.watch("check of the file's definitions", keeping));
        let (due, timing) = DueTimer::new(store.clone(), background.clone());
        tokio::spawn(supervisor.watch("timer of due messages", timing));
        let background = background.clone();
        Ok(Components {
            store,
            catalog,
            in_file,
            wakes,
            due,
            clients,
            transforms,
            metrics,
            background,
        })
    }
}

pub(super) fn api_of(
    config: &Config,
    parts: &Components,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Api {
    Api {
        store: parts.store.clone(),
        catalog: parts.catalog.clone(),
        wakes: parts.wakes.clone(),
        due: parts.due.clone(),
        in_file: parts.in_file.clone(),
        outgoing: parts.clients.outgoing().clone(),
        batch_bytes_max: config.http.batch_bytes_max,
        body_bytes_max: config.http.body_bytes_max,
        json_depth_max: config.http.json_depth_max,
        tails: Tails::new(parts.store.clone(), stop.clone(), tasks.clone()),
        memory_high_percent: config.ingest.memory_high_percent,
        certificates: Arc::new(tls::certificate_files(config)),
        stop: stop.clone(),
        tasks: tasks.clone(),
        workers: Arc::default(),
        metrics: parts.metrics.clone(),
    }
}
