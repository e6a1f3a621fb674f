//! The clients that deliveries and transforms use to reach other services.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::{RequestBuilder, Response, Url};
use rustls::ClientConfig;

use super::{
    outgoing::{Outgoing, OutgoingError, RefusedAddress, Resolver, to_port},
    receiver_stream::ReceiverStream,
};
use crate::tls::Connector;

/// Time limit to connect.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle connections kept per host.
const IDLE_PER_HOST_MAX: usize = 256;
/// Many requests share one connection of HTTP/2: one that is dead is noticed after a question without an
/// answer for this long.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// The HTTP client and the policy of outgoing connections. Build it only once, because it holds the
/// connections. Cheap to clone.
#[derive(Clone)]
pub struct Clients {
    http: Arc<Mutex<Http>>,
    outgoing: Outgoing,
    connector: Connector,
}

/// The client for HTTP, and the settings of TLS that it was built with.
struct Http {
    client: reqwest::Client,
    settings: Arc<ClientConfig>,
}

/// Why a request was not sent, or has no answer.
#[derive(Debug)]
pub enum RequestError {
    /// The URL has an address that may not be connected to.
    Refused(RefusedAddress),
    /// The client failed. The resolver's refusal of an address is among its causes.
    Failed(reqwest::Error),
}

impl Clients {
    /// Clients that connect only where `outgoing` allows it.
    ///
    /// They do not follow redirects, since another URL is another receiver. They ignore the
    /// environment's proxy variables: messages go where the definition says.
    pub fn new(outgoing: Outgoing, connector: Connector) -> reqwest::Result<Clients> {
        let settings = connector.settings();
        let http = Http { client: client(&outgoing, &settings)?, settings };
        Ok(Clients { http: Arc::new(Mutex::new(http)), outgoing, connector })
    }

    /// The client with the certificates as they are now. Requests that have begun go on with the client
    /// before.
    fn http(&self) -> reqwest::Client {
        let settings = self.connector.settings();
        let mut http = self.http.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&settings, &http.settings) {
            match client(&self.outgoing, &settings) {
                Ok(client) => http.client = client,
                Err(error) => tracing::error!(%error, "new certificates cannot be used"),
            }
            http.settings = settings;
        }
        http.client.clone()
    }

    /// Opens a connection to the host of a `tcp://` or `tls://` URL, over TLS if it says so.
    pub async fn connect(&self, url: &str) -> Result<ReceiverStream, OutgoingError> {
        let stream = self.outgoing.connect(url).await?;
        if !url.starts_with("tls://") {
            return Ok(ReceiverStream::Plain(stream));
        }
        let url = Url::parse(url).map_err(|_| OutgoingError::NoHost)?;
        let host = url.host_str().ok_or(OutgoingError::NoHost)?;
        Ok(ReceiverStream::Tls(Box::new(self.connector.connect(host, stream).await?)))
    }

    /// The policy of outgoing connections.
    pub fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }

    /// A POST to this URL, for [`Clients::send`].
    pub(crate) fn post(&self, url: &Url) -> RequestBuilder {
        self.http().post(url.clone())
    }

    /// Sends a request to this URL.
    pub(crate) async fn send(
        &self,
        url: &Url,
        request: RequestBuilder,
    ) -> Result<Response, RequestError> {
        // The client resolves only names, so its resolver does not see an address.
        self.outgoing.check_literal(url).map_err(RequestError::Refused)?;
        let port = url.port_or_known_default().unwrap_or_default();
        to_port(port, request.send()).await.map_err(RequestError::Failed)
    }
}

/// A client with these settings of TLS. It speaks HTTP/2 where the other side offers it.
fn client(outgoing: &Outgoing, settings: &ClientConfig) -> reqwest::Result<reqwest::Client> {
    let mut settings = settings.clone();
    settings.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    reqwest::Client::builder()
        .user_agent(concat!("reseq/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
        .http2_keep_alive_interval(KEEPALIVE)
        .http2_keep_alive_timeout(KEEPALIVE)
        .dns_resolver(Arc::new(Resolver(outgoing.clone())))
        .use_preconfigured_tls(settings)
        .build()
}
