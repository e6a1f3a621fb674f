//! The clients that deliveries and transforms use to reach other services.

use std::time::Duration;

use reqwest::{RequestBuilder, Response, Url};

use super::outgoing::{Outgoing, RefusedAddress, Resolver, to_port};

/// Time limit to connect.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle connections kept per host.
const IDLE_PER_HOST_MAX: usize = 256;

/// The HTTP client and the policy of outgoing connections. Build it only once, because it holds the
/// connections. Cheap to clone.
#[derive(Clone)]
pub struct Clients {
    http: reqwest::Client,
    outgoing: Outgoing,
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
    pub fn new(outgoing: Outgoing) -> reqwest::Result<Clients> {
        let http = reqwest::Client::builder()
            .user_agent(concat!("reseq/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
            .dns_resolver(std::sync::Arc::new(Resolver(outgoing.clone())))
            .build()?;
        Ok(Clients { http, outgoing })
    }

    /// The policy of outgoing connections.
    pub fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }

    /// A POST to this URL, for [`Clients::send`].
    pub(crate) fn post(&self, url: &Url) -> RequestBuilder {
        self.http.post(url.clone())
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
