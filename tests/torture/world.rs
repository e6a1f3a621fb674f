//! All processes of a run, and the links between them.

use std::{
    collections::{BTreeSet, HashMap},
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize},
    },
    time::{Duration, Instant},
};

use tokio::sync::Mutex;

use crate::{
    bulk::REMOVED,
    encryption::Encryption,
    level::Level,
    link::{Link, Ports},
    plan::{Kind, PODS, Role},
    process::ReceiverProcess,
    run::Storm,
    servers::Servers,
    support::{
        dns::Dns,
        examiner::{Order, Subject},
        holding::Holding,
        journal::Journal,
        ledger::Ledger,
        pods::{Addresses, Pod, Settings, client},
        preload::Clock,
        receiver::{Inbox, Receiver},
        transformer::Transformer,
        wait::LOOK_EVERY,
    },
};

/// The leases of processors, senders and workers.
pub const LEASE_MS: u64 = 2000;
/// Partitions of the deployment.
pub const PARTITIONS: u16 = 8;
/// The most file descriptors of a pod, unless a storm has its own limit.
pub const DESCRIPTORS: u32 = 1024;
/// The time for which idempotency keys are remembered. Producers repeat a request for two
/// minutes. Steps of a clock shorten that time.
const WINDOW_MS: u32 = 90_000;
const WINDOW_AMONG_STEPS_MS: u32 = 3_600_000;
/// A pod that is not ready, or has not ended, within this time is stuck.
const POD_MAX: Duration = Duration::from_secs(60);
/// The slowest transform.
const SLOWEST_MS: u64 = 20;

/// A destination that is not removed.
const fn subject(destination: &'static str, order: Order, is_transformed: bool) -> Subject {
    Subject { destination, order, is_transformed, is_removed: false }
}

/// The first of [`SUBJECTS`], this many, always have messages and are struck by faults. The last
/// of them has a receiver in a separate process, the others in this one.
pub const FLOWING: usize = 6;
/// The index in [`SUBJECTS`] of the destination with consumers.
pub const PULLED: usize = FLOWING;
/// The first of [`SUBJECTS`], this many, always have messages, and are drained at the end.
pub const DRAINED: usize = PULLED + 1;

/// All destinations whose deliveries are verified, in the order in which faults count them.
pub const SUBJECTS: [Subject; 8] = [
    subject("orders", Order::Destination, true),
    subject("accounts", Order::Key, true),
    subject("frames", Order::Destination, false),
    subject("lines", Order::Destination, false),
    subject("loose", Order::None, true),
    subject("invoices", Order::Key, false),
    subject("parcels", Order::Key, false),
    Subject { is_removed: true, ..subject(REMOVED, Order::Destination, false) },
];

pub struct World {
    pub level: Level,
    /// The most file descriptors of a pod.
    pub descriptors: u32,
    /// The clocks of all servers, if they can be moved.
    pub clocks: Vec<Clock>,
    pub redis: Mutex<Servers>,
    pub journal: Arc<Journal>,
    pub ledger: Arc<Ledger>,
    /// All pods, ordered by role.
    pub pods: Vec<Mutex<Pod>>,
    /// The addresses of all pods, for requests while a fault holds the lock of the pod.
    pub addresses: Vec<Addresses>,
    /// The links between each pod and every server of Redis.
    pub redis_links: Vec<Vec<Link>>,
    /// The links to each ingest pod: HTTP, TCP.
    pub ingest_links: Vec<[Link; 2]>,
    /// The link to each destination's receiver.
    pub receiver_links: Vec<Link>,
    /// The inboxes of the receivers in this process.
    pub inboxes: Vec<Arc<Inbox>>,
    pub receiver_process: ReceiverProcess,
    /// A receiver that never answers.
    pub holding: Holding,
    /// The DNS server, which ignores names that begin with `silent`.
    pub dns: Dns,
    /// The number of messages sent to the removed destination.
    pub used: AtomicUsize,
    /// The number of times that a worker must still abandon its leases.
    pub forgetting: AtomicUsize,
    /// The number of times that a consumer must still be killed.
    pub killing: AtomicUsize,
    /// Sequences of messages of [`PULLED`] that need not be delivered.
    pub purged: std::sync::Mutex<BTreeSet<u64>>,
    /// Set when producers must stop sending.
    pub is_over: AtomicBool,
    pub encryption: Option<Encryption>,
    backlog_url: String,
    _receivers: Vec<Receiver>,
    _transformer: Transformer,
}

impl World {
    /// Starts all processes, and writes the journals to `file` and beside it.
    pub async fn start(storm: &Storm, encryption: Option<Encryption>, file: &Path) -> World {
        let Storm { topology, level, seed, descriptors, .. } = *storm;
        let tls = encryption.as_ref().map(Encryption::of_redis);
        let redis = Servers::start(topology, level, tls).await;
        let are_moved = storm.kinds.iter().any(|kind| matches!(kind, Kind::Clock(_)));
        let clocks = if are_moved { redis.give_clocks().await } else { Vec::new() };
        let window_ms = if are_moved { WINDOW_AMONG_STEPS_MS } else { WINDOW_MS };
        let journal = Arc::new(Journal::in_file(file).expect("the journal can be made"));
        let transformer = Transformer::start(seed, SLOWEST_MS).await;
        let replicas = Servers::replicas(topology);
        let (holding, dns) = (Holding::start().await, Dns::start([127, 0, 0, 1]).await);
        let mut settings = Settings {
            partitions: PARTITIONS,
            tcp: vec![("frames", "lines")],
            sender_lease_ms: LEASE_MS,
            processor_lease_ms: LEASE_MS,
            shutdown_ms: 5000,
            redis: format!("timeout_ms = 1500\nconnections = 2\nreplicas = {replicas}"),
            ingest: "retry_ms = 1000".into(),
            descriptors: Some(descriptors),
            ..Settings::new("")
        };
        settings.outgoing = format!("{}\n{}", settings.outgoing, dns.setting());
        if let Some(encryption) = &encryption {
            encryption.applied_to(&mut settings);
        }
        // The address of the receiver, and whether it uses TLS.
        let before = |plain: SocketAddr| match &encryption {
            Some(encryption) => (encryption.before_receiver(plain), true),
            None => (plain, false),
        };
        let (to_transformer, is_tls) = before(transformer.address);
        let transform = format!("{}://{to_transformer}/", if is_tls { "https" } else { "http" });
        let receiver_process =
            ReceiverProcess::start(&file.with_extension("process"), &journal).await;
        let (mut inboxes, mut receivers, mut receiver_links) = (Vec::new(), Vec::new(), Vec::new());
        for (index, subject) in SUBJECTS[..FLOWING].iter().enumerate() {
            let address = if index + 1 < FLOWING {
                let inbox = Inbox::sharing(&journal);
                let receiver = match subject.destination {
                    "lines" => Receiver::lines(&inbox, "lines").await,
                    _ => Receiver::http(&inbox).await,
                };
                let address = receiver.address;
                inboxes.push(inbox);
                receivers.push(receiver);
                address
            } else {
                receiver_process.address
            };
            let link = Link::to(Arc::new(move || Some(address))).await;
            let common = common(subject, level, window_ms);
            let fields = common + &fields(subject, before(link.address), &transform);
            settings = settings.destination(subject.destination, &fields);
            receiver_links.push(link);
        }
        let pulled = common(&SUBJECTS[PULLED], level, window_ms) + &consumed();
        settings = settings.destination(SUBJECTS[PULLED].destination, &pulled);
        let of_backlogs = Receiver::http(&Inbox::sharing(&journal)).await;
        let (address, is_tls) = before(of_backlogs.address);
        let backlog_url = format!("{}://{address}/in", if is_tls { "https" } else { "http" });
        receivers.push(of_backlogs);
        let (pods, addresses, redis_links) = pods(settings, &redis, encryption.as_ref()).await;
        let ingest_links = ingest_links(&addresses).await;
        World {
            level,
            descriptors,
            clocks,
            redis: Mutex::new(redis),
            journal,
            ledger: Arc::default(),
            pods,
            addresses,
            redis_links,
            ingest_links,
            receiver_links,
            inboxes,
            receiver_process,
            holding,
            dns,
            used: AtomicUsize::new(0),
            forgetting: AtomicUsize::new(0),
            killing: AtomicUsize::new(0),
            purged: std::sync::Mutex::default(),
            is_over: AtomicBool::new(false),
            encryption,
            backlog_url,
            _receivers: receivers,
            _transformer: transformer,
        }
    }

    /// The receiver of destinations with a long backlog.
    pub fn backlog_url(&self) -> &str {
        &self.backlog_url
    }

    /// Changes all certificates, if there are any.
    pub async fn rotate_certificates(&self) {
        if let Some(encryption) = &self.encryption {
            encryption.rotate(&self.redis).await;
        }
    }

    /// The addresses for producers: the links to the ingest pods.
    pub fn doors(&self) -> Vec<Addresses> {
        let door = |[http, tcp]: &[Link; 2]| Addresses::of(http.address, vec![tcp.address]);
        self.ingest_links.iter().map(door).collect()
    }

    pub fn pod(&self, role: Role, number: usize) -> &Mutex<Pod> {
        &self.pods[role as usize * PODS + number]
    }
}

/// Starts the pods of each role, each with its own links to all servers of Redis.
async fn pods(
    settings: Settings,
    redis: &Servers,
    encryption: Option<&Encryption>,
) -> (Vec<Mutex<Pod>>, Vec<Addresses>, Vec<Vec<Link>>) {
    let (mut pods, mut addresses, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for role in Role::ALL {
        for number in 1..=PODS {
            let (of_pod, ports) = redis_links(redis, encryption).await;
            let mut settings = settings.clone();
            settings.redis_url = redis.url_through(|port| ports[&port]);
            links.push(of_pod);
            let pod =
                Pod::start(&format!("{}-{number}", role.name()), role.name(), &settings).await;
            addresses.push(pod.addresses.clone());
            pods.push(Mutex::new(pod));
        }
    }
    (pods, addresses, links)
}

/// Creates a link to each server. In the servers' answers, these links replace the servers.
/// Returns the links, and their ports by the servers' ports.
async fn redis_links(
    redis: &Servers,
    encryption: Option<&Encryption>,
) -> (Vec<Link>, HashMap<u16, u16>) {
    let (names, mut links, mut ports) = (Ports::default(), Vec::new(), HashMap::new());
    for port in redis.ports() {
        let mut server = SocketAddr::from(([127, 0, 0, 1], port));
        if let Some(encryption) = encryption {
            server = encryption.behind_redis(Arc::new(move || Some(server)));
        }
        let link = Link::translating(Arc::new(move || Some(server)), &names).await;
        let near = encryption.map_or(link.address, |one| one.before_link(link.address));
        ports.insert(port, near.port());
        links.push(link);
    }
    let _ = names.set(ports.clone());
    (links, ports)
}

async fn ingest_links(addresses: &[Addresses]) -> Vec<[Link; 2]> {
    let mut links = Vec::new();
    for of_pod in &addresses[..PODS] {
        let (http, tcp) = (of_pod.clone(), of_pod.clone());
        let http = Link::to(Arc::new(move || http.http())).await;
        let tcp = Link::to(Arc::new(move || Some(tcp.tcp(0)))).await;
        links.push([http, tcp]);
    }
    links
}

/// The fields that all destinations have.
fn common(subject: &Subject, level: Level, window_ms: u32) -> String {
    let ordering = match subject.order {
        Order::Destination => "destination",
        Order::Key => "key",
        Order::None => "none",
    };
    format!(
        "ordering = \"{ordering}\"\ndurability = \"{level}\"\nidempotency_window_ms = {window_ms}\n\
         log_max = 100\n"
    )
}

/// The other fields of a destination with a receiver, which never gives up a message, and always tries again soon.
fn fields(subject: &Subject, (receiver, is_tls): (SocketAddr, bool), transformer: &str) -> String {
    let again = "backoff_ms = 20, backoff_max_ms = 500, attempts_max = 0";
    let transform = match subject.destination {
        "orders" | "accounts" => format!(
            "{{ kind = \"http\", url = \"{transformer}\", timeout_ms = 3000, {again}, \
             stalls_max = 0 }}"
        ),
        "loose" => format!("{{ kind = \"worker\", {again}, stalls_max = 0 }}"),
        _ => "{ kind = \"none\" }".to_owned(),
    };
    let is_tcp = subject.destination == "lines";
    let (scheme, path) = match (is_tcp, is_tls) {
        (true, false) => ("tcp", ""),
        (true, true) => ("tls", ""),
        (false, false) => ("http", "/in"),
        (false, true) => ("https", "/in"),
    };
    let window = if is_tcp { "window_max = 50, " } else { "" };
    format!(
        "url = \"{scheme}://{receiver}{path}\"\ntransform = {transform}\n\
         delivery = {{ {window}timeout_ms = 3000, {again} }}"
    )
}

/// The other fields of the destination with consumers.
fn consumed() -> String {
    format!(
        "delivery = {{ kind = \"pull\", timeout_ms = {LEASE_MS}, backoff_ms = 20, backoff_max_ms = 500 }}"
    )
}

/// Starts a pod that has ended. Repeats this as needed, because a start fails while Redis is down.
pub async fn revive(pod: &mut Pod) -> Result<(), String> {
    let (client, begun) = (client(), Instant::now());
    while begun.elapsed() < POD_MAX {
        if pod.has_ended() {
            pod.launch();
        }
        let asked = client.get(pod.url("/readyz")).timeout(Duration::from_secs(5)).send().await;
        if asked.is_ok_and(|answer| answer.status() == 200) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY * 5).await;
    }
    Err(format!("{} did not become ready within {POD_MAX:?}", pod.name))
}

/// Waits until a stopping pod has ended.
pub async fn ends(pod: &mut Pod) -> Result<(), String> {
    let begun = Instant::now();
    while !pod.has_ended() {
        if begun.elapsed() > POD_MAX {
            pod.kill();
            return Err(format!("{} did not end within {POD_MAX:?} of SIGTERM", pod.name));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
