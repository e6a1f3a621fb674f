//! The clients that deliveries and transforms use to reach other services.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use reqwest::{Client, RequestBuilder, Response, Url};
use rustls::{ClientConfig, client::Resumption};
use tokio::time::Instant;
use tokio_util::either::Either;
use tower::util::MapResponseLayer;

use super::{
    outgoing::{Outgoing, OutgoingError, RefusedAddress, Resolver, to_port},
    receiver_stream::ReceiverStream,
};
use domain::DestinationName;
use shares::{FairShare, Place, Shares};
use tls::Connector;

/// Time limit to connect.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle connections kept per host.
const IDLE_PER_HOST_MAX: usize = 256;
/// Many requests share one HTTP/2 connection. The client pings at this interval, and drops a
/// connection whose ping has no answer for this long.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// An idle connection is closed after this time.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// How many generations of HTTP clients may keep idle connections.
const GENERATIONS_MAX: usize = 4;

/// The limits of outgoing connections.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most connections at once: one half for connections in use, the other half for idle ones.
    pub connections: usize,
    /// A connection this old is not used again.
    pub age_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 1 << 16, age_max: Duration::from_secs(300) }
    }
}

/// The HTTP client and the policy of outgoing connections. Build it only once, because it holds the
/// connections. Cheap to clone.
#[derive(Clone)]
pub struct Clients {
    generation: Arc<Mutex<Generation>>,
    limits: Limits,
    /// Connections in use.
    places: FairShare<DestinationName>,
    outgoing: Outgoing,
    connector: Connector,
}

/// The connections that may be reused. The next generation closes the idle ones of this generation. It begins when
/// certificates have changed, when the oldest connection is too old, or when too many of the opened connections may be
/// idle. While several earlier generations may still have idle connections, a new generation keeps none.
struct Generation {
    number: u64,
    begun: Instant,
    client: Client,
    /// The settings of TLS that the client was built with.
    settings: Arc<ClientConfig>,
    /// The number of opened connections. The client holds this counter too.
    opened: Arc<AtomicUsize>,
    keeps_idle: bool,
    /// Earlier generations whose clients are still held by requests in progress, and may keep idle connections.
    before: Vec<(Weak<AtomicUsize>, Instant)>,
    /// Idle connections outside of the client.
    idle: Vec<Weak<dyn Idle>>,
}

/// Idle connections outside of the HTTP client.
pub trait Idle: Send + Sync {
    /// Closes all these connections.
    fn close(&self);
}

/// Why a request was not sent, or has no answer.
#[derive(Debug)]
pub enum RequestError {
    /// Reseq may not connect to the address in the URL.
    Refused(RefusedAddress),
    /// The host could not be looked up.
    Unresolved(OutgoingError),
    /// The client failed. If the resolver refused an address, this refusal is among the causes.
    Failed(reqwest::Error),
}

impl Clients {
    /// Like [`Clients::limited`], with the default limits.
    pub fn new(outgoing: Outgoing, connector: Connector) -> reqwest::Result<Clients> {
        Clients::limited(outgoing, connector, Limits::default())
    }

    /// Clients that connect only where `outgoing` allows it.
    ///
    /// They do not follow redirects, since another URL is another receiver. They ignore the
    /// environment's proxy variables: messages go where the definition says.
    pub fn limited(
        outgoing: Outgoing,
        connector: Connector,
        limits: Limits,
    ) -> reqwest::Result<Clients> {
        let (settings, opened) = (connector.settings(), Arc::default());
        let client = client(&outgoing, &settings, &opened, true)?;
        let generation = Generation {
            number: 0,
            begun: Instant::now(),
            client,
            settings,
            opened,
            keeps_idle: true,
            before: Vec::new(),
            idle: Vec::new(),
        };
        let in_use = (limits.connections / 2).max(1);
        let places = FairShare::new("connections", Shares::new(in_use, in_use).halves());
        let generation = Arc::new(Mutex::new(generation));
        Ok(Clients { generation, limits, places, outgoing, connector })
    }

    /// Connections in use.
    pub fn places(&self) -> &FairShare<DestinationName> {
        &self.places
    }

    /// The client for HTTP, and the number of its generation. Begins the next generation if it is
    /// time. Requests in progress continue with the earlier client.
    fn current(&self) -> (Client, u64) {
        let mut now = self.generation.lock();
        let settings = self.connector.settings();
        let opened_max = (self.limits.connections / 2 / GENERATIONS_MAX).max(1);
        let is_due = match now.keeps_idle {
            true => now.opened.load(Ordering::Relaxed) >= opened_max,
            false => now.are_few_before(),
        };
        let is_old = now.begun.elapsed() >= self.limits.age_max;
        if is_due || is_old || !Arc::ptr_eq(&settings, &now.settings) {
            now.renew(&self.outgoing, settings);
        }
        (now.client.clone(), now.number)
    }

    /// Begins the next generation if it is time. Returns the number of the current one: do not
    /// reuse connections of other generations.
    pub fn generation(&self) -> u64 {
        self.current().1
    }

    /// True if a connection of this generation may be kept while it is idle.
    pub fn keeps_idle(&self, number: u64) -> bool {
        let now = self.generation.lock();
        now.keeps_idle && now.number == number
    }

    /// Registers idle connections, which close with their generation.
    pub fn note_idle(&self, idle: Weak<dyn Idle>) {
        let mut now = self.generation.lock();
        now.idle.retain(|one| one.strong_count() > 0);
        now.idle.push(idle);
    }

    /// Waits until this destination may use one more connection to this URL. Looks up its host first.
    pub async fn place(
        &self,
        destination: &DestinationName,
        url: &str,
    ) -> Result<Place<DestinationName>, OutgoingError> {
        self.outgoing.find_first(destination, url).await?;
        Ok(self.places.take(destination).await)
    }

    /// Opens a connection to the host of a `tcp://` URL, or of a `tls://` URL with TLS. The
    /// caller must hold a [`Clients::place`].
    pub async fn connect(
        &self,
        destination: &DestinationName,
        url: &str,
    ) -> Result<ReceiverStream, OutgoingError> {
        let stream = self.outgoing.connect(destination, url).await?;
        let now = self.generation.lock().opened.clone();
        now.fetch_add(1, Ordering::Relaxed);
        if !url.starts_with("tls://") {
            return Ok(Either::Left(stream));
        }
        let url = Url::parse(url).map_err(|_| OutgoingError::NoHost)?;
        let host = url.host_str().ok_or(OutgoingError::NoHost)?;
        Ok(Either::Right(Box::new(self.connector.connect(host, stream).await?)))
    }

    /// The policy of outgoing connections.
    pub fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }

    /// Sends a POST, completed by `build`, to this URL of a destination. First waits until the
    /// destination may use one more connection; no time limit of the request counts this wait.
    /// The answer holds the connection until dropped.
    pub(crate) async fn post(
        &self,
        destination: &DestinationName,
        url: &Url,
        build: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, RequestError> {
        // The client resolves only names, so the resolver does not check a URL with an address.
        self.outgoing.check_literal(url).map_err(RequestError::Refused)?;
        let place =
            self.place(destination, url.as_str()).await.map_err(RequestError::Unresolved)?;
        let request = build(self.current().0.post(url.clone()));
        let port = url.port_or_known_default().unwrap_or_default();
        let answer = to_port(destination, port, request.send()).await;
        let mut answer = answer.map_err(RequestError::Failed)?;
        answer.extensions_mut().insert(Arc::new(place));
        Ok(answer)
    }
}

impl Generation {
    /// True if the next generation may keep idle connections.
    fn are_few_before(&mut self) -> bool {
        let may_have_idle = |(client, since): &(Weak<AtomicUsize>, Instant)| {
            client.strong_count() > 0 && since.elapsed() < IDLE_MAX
        };
        self.before.retain(may_have_idle);
        self.before.len() + 2 <= GENERATIONS_MAX
    }

    fn renew(&mut self, outgoing: &Outgoing, settings: Arc<ClientConfig>) {
        let keeps_idle = self.are_few_before();
        let opened = Arc::default();
        match client(outgoing, &settings, &opened, keeps_idle) {
            // Dropping the old client closes its idle connections, unless a request in progress holds that client.
            Ok(client) => self.client = client,
            Err(error) => return tracing::error!(%error, "the HTTP client cannot be renewed"),
        }
        let opened = std::mem::replace(&mut self.opened, opened);
        if self.keeps_idle {
            self.before.push((Arc::downgrade(&opened), Instant::now()));
        }
        (self.number, self.begun, self.settings) = (self.number + 1, Instant::now(), settings);
        self.keeps_idle = keeps_idle;
        self.idle.iter().filter_map(Weak::upgrade).for_each(|idle| idle.close());
    }
}

/// A client with these TLS settings. It uses HTTP/2 if the server offers it.
fn client(
    outgoing: &Outgoing,
    settings: &ClientConfig,
    opened: &Arc<AtomicUsize>,
    keeps_idle: bool,
) -> reqwest::Result<Client> {
    let mut settings = settings.clone();
    settings.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Each generation begins without sessions, so that receivers show their certificates again.
    settings.resumption = Resumption::default();
    let opened = opened.clone();
    Client::builder()
        .user_agent(concat!("reseq/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(if keeps_idle { IDLE_PER_HOST_MAX } else { 0 })
        .pool_idle_timeout(IDLE_MAX)
        .http2_keep_alive_interval(KEEPALIVE)
        .http2_keep_alive_timeout(KEEPALIVE)
        .dns_resolver(Arc::new(Resolver(outgoing.clone())))
        .connector_layer(MapResponseLayer::new(move |connection| {
            opened.fetch_add(1, Ordering::Relaxed);
            connection
        }))
        .use_preconfigured_tls(settings)
        .build()
}
