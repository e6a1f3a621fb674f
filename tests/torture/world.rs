//! All processes of a run, and the links between them.

use std::{
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
    link::Link,
    plan::{PODS, Role, Topology},
    servers::Servers,
    support::{
        examiner::{Order, Subject},
        journal::Journal,
        ledger::Ledger,
        pods::{Addresses, Pod, Settings, client},
        receiver::{Desk, Receiver},
        transformer::Transformer,
        wait::LOOK_EVERY,
    },
};

/// The leases of processors, senders and workers.
pub const LEASE_MS: u64 = 2000;
/// A pod that is not ready, or has not ended, by then is stuck.
const POD_MAX: Duration = Duration::from_secs(60);
/// The slowest transform.
const SLOWEST_MS: u64 = 20;

/// All destinations, in the order in which faults count them.
pub const SUBJECTS: [Subject; 5] = [
    Subject { destination: "orders", order: Order::Destination, is_transformed: true },
    Subject { destination: "accounts", order: Order::Key, is_transformed: true },
    Subject { destination: "frames", order: Order::Destination, is_transformed: false },
    Subject { destination: "lines", order: Order::Destination, is_transformed: false },
    Subject { destination: "loose", order: Order::None, is_transformed: true },
];

pub struct World {
    pub redis: Mutex<Servers>,
    pub journal: Arc<Journal>,
    pub ledger: Arc<Ledger>,
    /// As many of each role as there are, role by role.
    pub pods: Vec<Mutex<Pod>>,
    /// Of all pods, to be asked without waiting for a fault that has the pod in hand.
    pub addresses: Vec<Addresses>,
    /// Between each pod and Redis.
    pub redis_links: Vec<Link>,
    /// Before each ingest pod: HTTP, TCP.
    pub ingest_links: Vec<[Link; 2]>,
    /// Before each destination's receiver.
    pub receiver_links: Vec<Link>,
    pub desks: Vec<Arc<Desk>>,
    /// So many times a worker is to forget what it has.
    pub forgetting: AtomicUsize,
    /// Producers send nothing more.
    pub is_over: AtomicBool,
    _receivers: Vec<Receiver>,
    _transformer: Transformer,
}

impl World {
    /// Starts everything, and keeps the journal in `file`.
    pub async fn start(topology: Topology, seed: u64, file: &Path) -> World {
        let redis = Servers::start(topology).await;
        let journal = Arc::new(Journal::in_file(file).expect("the journal can be made"));
        let transformer = Transformer::start(seed, SLOWEST_MS).await;
        let mut settings = Settings {
            partitions: 8,
            tcp: vec![("frames", "lines")],
            sender_lease_ms: LEASE_MS,
            processor_lease_ms: LEASE_MS,
            shutdown_ms: 5000,
            redis: "timeout_ms = 1500\nconnections = 2".into(),
            ingest: "retry_ms = 1000".into(),
            ..Settings::new(&redis.url())
        };
        let (mut desks, mut receivers, mut receiver_links) = (Vec::new(), Vec::new(), Vec::new());
        for subject in &SUBJECTS {
            let desk = Desk::sharing(&journal);
            let receiver = match subject.destination {
                "lines" => Receiver::lines(&desk, "lines").await,
                _ => Receiver::http(&desk).await,
            };
            let address = receiver.address;
            let link = Link::to(Arc::new(move || Some(address))).await;
            let fields = fields(subject, link.address, &transformer.url());
            settings = settings.destination(subject.destination, &fields);
            desks.push(desk);
            receivers.push(receiver);
            receiver_links.push(link);
        }
        let (pods, addresses, redis_links) = pods(settings, redis.address()).await;
        let ingest_links = ingest_links(&addresses).await;
        World {
            redis: Mutex::new(redis),
            journal,
            ledger: Arc::default(),
            pods,
            addresses,
            redis_links,
            ingest_links,
            receiver_links,
            desks,
            forgetting: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            _receivers: receivers,
            _transformer: transformer,
        }
    }

    /// Where producers send to: the links before the ingest pods.
    pub fn doors(&self) -> Vec<Addresses> {
        let door = |[http, tcp]: &[Link; 2]| Addresses::of(http.address, vec![tcp.address]);
        self.ingest_links.iter().map(door).collect()
    }

    pub fn pod(&self, role: Role, number: usize) -> &Mutex<Pod> {
        &self.pods[role as usize * PODS + number]
    }
}

/// Starts the pods of each role, each with a link of its own to Redis where that has one address.
async fn pods(
    settings: Settings,
    redis: Option<SocketAddr>,
) -> (Vec<Mutex<Pod>>, Vec<Addresses>, Vec<Link>) {
    let (mut pods, mut addresses, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for role in Role::ALL {
        for number in 1..=PODS {
            let mut settings = settings.clone();
            if redis.is_some() {
                let link = Link::to(Arc::new(move || redis)).await;
                settings.redis_url = format!("redis://{}", link.address);
                links.push(link);
            }
            let pod =
                Pod::start(&format!("{}-{number}", role.name()), role.name(), &settings).await;
            addresses.push(pod.addresses.clone());
            pods.push(Mutex::new(pod));
        }
    }
    (pods, addresses, links)
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

/// The fields of a destination. Nothing is ever given up, and all is tried again soon.
fn fields(subject: &Subject, receiver: SocketAddr, transformer: &str) -> String {
    let again = "backoff_ms = 20, backoff_max_ms = 500, attempts_max = 0";
    let transform = match subject.destination {
        "orders" | "accounts" => format!(
            "{{ kind = \"http\", url = \"{transformer}\", timeout_ms = 3000, {again}, \
             crashes_max = 0 }}"
        ),
        "loose" => format!("{{ kind = \"worker\", {again}, crashes_max = 0 }}"),
        _ => "{ kind = \"none\" }".to_owned(),
    };
    let (scheme, path) = match subject.destination {
        "lines" => ("tcp", ""),
        _ => ("http", "/in"),
    };
    let ordering = match subject.order {
        Order::Destination => "destination",
        Order::Key => "key",
        Order::None => "none",
    };
    let window = if scheme == "tcp" { "window = 50, " } else { "" };
    format!(
        "url = \"{scheme}://{receiver}{path}\"\nordering = \"{ordering}\"\n\
         idempotency_window_ms = 300000\nlog_max = 100\ntransform = {transform}\n\
         delivery = {{ {window}timeout_ms = 3000, {again} }}"
    )
}

/// Starts a pod that has ended, as often as it takes: while Redis is away, a start fails.
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

/// Waits until a pod that was asked to has ended.
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
