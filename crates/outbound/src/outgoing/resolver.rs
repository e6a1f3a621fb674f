//! Resolves names for the HTTP client, and returns only allowed addresses.

use std::future::Future;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::Outgoing;
use domain::DestinationName;

tokio::task_local! {
    /// The destination and the port of the request in progress. The HTTP client passes only the
    /// name to its resolver, but calls it within the call that sends the request.
    static REQUEST: (DestinationName, u16);
}

/// Runs a request of this destination, whose URL has this port.
pub(crate) async fn to_port<R>(
    destination: &DestinationName,
    port: u16,
    request: impl Future<Output = R>,
) -> R {
    REQUEST.scope((destination.clone(), port), request).await
}

/// The resolver of the HTTP client.
pub(crate) struct Resolver(pub(crate) Outgoing);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let request = REQUEST.try_with(Clone::clone);
        let outgoing = self.0.clone();
        Box::pin(async move {
            // Without the port, the check is impossible, so refuse to connect.
            let (destination, port) =
                request.map_err(|_| "the port of the request is not known")?;
            let destination = Some(destination);
            let permitted = outgoing.permitted(&destination, name.as_str(), port).await?;
            Ok(Box::new(permitted.into_iter()) as Addrs)
        })
    }
}
