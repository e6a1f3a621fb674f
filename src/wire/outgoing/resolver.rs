//! Resolves the names of the HTTP client: it gets only addresses that it may connect to.

use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
};

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::Outgoing;
use crate::faults::planted;

tokio::task_local! {
    /// The port of the request in progress. The HTTP client tells its resolver only the name, but asks it
    /// within the call that sends the request.
    static PORT: u16;
}

/// Finds the addresses of a name.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// All addresses of this name.
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the system.
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// Runs a request whose URL has this port.
pub(crate) async fn to_port<R>(port: u16, request: impl Future<Output = R>) -> R {
    PORT.scope(port, request).await
}

/// The resolver of the HTTP client.
pub(crate) struct Resolver(pub(crate) Outgoing);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let port = PORT.try_with(|port| *port);
        let outgoing = self.0.clone();
        Box::pin(async move {
            // Without the port, nothing can be checked, so nothing is connected to.
            let port = port.map_err(|_| "the port of the request is not known")?;
            if planted::is("connection_unchecked") {
                let found = outgoing.lookup.lookup(name.as_str()).await?;
                let found = found.into_iter().map(move |ip| SocketAddr::new(ip, port));
                return Ok(Box::new(found) as Addrs);
            }
            let permitted = outgoing.permitted(name.as_str(), port).await?;
            Ok(Box::new(permitted.into_iter()) as Addrs)
        })
    }
}
