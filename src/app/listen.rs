//! The listeners of a process.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{Extension, Router};
use tokio::{net::TcpListener, sync::Semaphore, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{AppError, descriptors::Descriptors, serve_http::HttpServer, supervisor::Supervisor};
use access::Guard;
use api::Recorder;
use config::{AuthMode, Config, ConfigError, Listen, TcpAuth, invalid};
use http_server::{concurrency_limit::ConcurrencyLimit, shares::Shares};
use ingest::{Committer, rates::Rates};
use store::Store;
use tls::Acceptor;

/// Time limit for the addresses of one name.
const LOOKUP_MAX: Duration = Duration::from_secs(10);

/// The addresses on which this process must listen, each with its configuration field.
pub(super) fn places(config: &Config) -> Result<Vec<(&'static str, Listen)>, ConfigError> {
    let mut all = vec![("http.listen", config.http.listen.clone())];
    all.extend(config.admin.place()?.map(|place| ("admin.listen", place)));
    all.extend(config.tcp.iter().map(|listener| ("tcp.listen", listener.listen.clone())));
    Ok(all)
}

/// The resolved addresses, without duplicates.
pub(super) async fn addresses_of(
    place: &Listen,
    field: &'static str,
) -> Result<Vec<SocketAddr>, AppError> {
    let failed = |problem| AppError::Listen { place: place.to_string(), field, problem };
    let looked_up = timeout(LOOKUP_MAX, tokio::net::lookup_host(place.parts())).await;
    let late = || io::Error::new(io::ErrorKind::TimedOut, "the name was not resolved in time");
    let mut addresses = Vec::new();
    for address in looked_up.map_err(|_| failed(late()))?.map_err(failed)? {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    match addresses.is_empty() {
        true => Err(failed(io::Error::new(io::ErrorKind::NotFound, "the name has no address"))),
        false => Ok(addresses),
    }
}

/// Binds all addresses of this configuration field, with one port. If the name has several addresses, skips those that
/// this machine does not have, such as `::1` without IPv6.
pub(super) async fn listen(
    place: &Listen,
    field: &'static str,
) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), AppError> {
    let failed = |problem| AppError::Listen { place: place.to_string(), field, problem };
    let (mut listeners, mut bound, mut missing) = (Vec::new(), Vec::<SocketAddr>::new(), None);
    for mut address in addresses_of(place, field).await? {
        if let Some(first) = bound.first() {
            address.set_port(first.port());
        }
        match TcpListener::bind(address).await {
            Ok(listener) => {
                let address = listener.local_addr().map_err(failed)?;
                tracing::info!(%address, field, "a listener is open");
                bound.push(address);
                listeners.push(listener);
            }
            Err(error) if is_missing(&error) => {
                tracing::warn!(%address, %error, field, "this machine does not have the address");
                missing = Some(error);
            }
            Err(error) => return Err(failed(error)),
        }
    }
    match missing {
        Some(error) if listeners.is_empty() => Err(failed(error)),
        _ => Ok((listeners, bound)),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
}

/// The parts that the HTTP listeners share, and for each listener the limit of connections per address.
type OfHttp = (Router, Guard, Store, [ConcurrencyLimit<IpAddr>; 2]);

/// Starts the HTTP listener, and the HTTP listener for operators. Returns the first address of each, and all addresses.
pub(super) async fn listen_http(
    config: &Config,
    descriptors: &Descriptors,
    (routes, guard, store, [by_address, of_operators]): OfHttp,
    listeners: &TaskTracker,
    stop: &CancellationToken,
    supervisor: &Supervisor,
) -> Result<(SocketAddr, Option<SocketAddr>, Vec<SocketAddr>), AppError> {
    let (entries_max, tasks) = (config.audit.entries_max, listeners.clone());
    let recorder = Recorder::new(store, entries_max, tasks);
    let serve = |bound: Vec<TcpListener>, guard, by_address, connections_max, tls| {
        let guards = (Guard::clone(&guard), recorder.clone());
        let waits = Shares::of(connections_max);
        let routes = routes.clone().layer(Extension(waits));
        let routes = api::surround(routes, super::pace_of(config), guards);
        let of_it = (routes, guard, by_address);
        let server = HttpServer::new(of_it, &config.http, tls, connections_max, stop.clone());
        let server = Arc::new(server);
        for listener in bound {
            let serving = server.clone().run(listener, listeners.clone());
            listeners.spawn(supervisor.watch("HTTP listener", serving));
        }
    };
    let (bound, http) = listen(&config.http.listen, "http.listen").await?;
    let guard_of_all = guard.at(&http);
    let tls = Acceptor::http("http.tls", &config.http.tls)?;
    let Some(place) = config.admin.place()? else {
        serve(bound, guard_of_all, by_address, descriptors.http, tls);
        return Ok((first_of(&http)?, None, http));
    };
    let (admin_bound, admin) = listen(&place, "admin.listen").await?;
    serve(bound, guard_of_all.without_operators(), by_address, descriptors.http, tls);
    let tls = Acceptor::http("admin.tls", &config.admin.tls)?;
    serve(admin_bound, guard.at(&admin), of_operators, descriptors.admin, tls);
    Ok((first_of(&http)?, Some(first_of(&admin)?), [http, admin].concat()))
}

/// The first address of a listener, which has at least one.
fn first_of(addresses: &[SocketAddr]) -> Result<SocketAddr, AppError> {
    addresses.first().copied().ok_or(AppError::Ended { what: "HTTP listener" })
}

/// Starts the TCP listeners. Returns their addresses.
pub(super) async fn listen_tcp(
    config: &Config,
    connections_max: usize,
    (committer, guard, rates): (Committer, Guard, Rates),
    listeners: &TaskTracker,
    stop: &CancellationToken,
    supervisor: &Supervisor,
) -> Result<Vec<SocketAddr>, AppError> {
    let shared = ingest::tcp::Shared {
        committer,
        limits: ingest::json::Limits::of(&config.http),
        frames_in_flight_max: config.ingest.frames_in_flight_max,
        pace: super::pace_of(config),
        connections: Arc::new(Semaphore::new(connections_max)),
        unverified: ingest::tcp::Unverified::default(),
        connections_per_address_max: config.ingest.connections_per_address_max,
        guard,
        rates,
    };
    let mut bound = Vec::new();
    for settings in &config.tcp {
        let (listeners_of_it, addresses) = listen(&settings.listen, "tcp.listen").await?;
        let guard = shared.guard.at(&addresses);
        for listener in listeners_of_it {
            let run = ingest::tcp::run(
                listener,
                settings.clone(),
                Acceptor::frames("tcp.tls", &settings.tls)?,
                ingest::tcp::Shared { guard: guard.clone(), ..shared.clone() },
                stop.clone(),
                listeners.clone(),
            );
            listeners.spawn(supervisor.watch("TCP listener", run));
        }
        bound.extend(addresses);
    }
    Ok(bound)
}

/// Refuses to serve other machines while no token exists, because then any caller could do anything.
pub(super) async fn guarded(config: &Config, guard: &Guard) -> Result<(), AppError> {
    if guard.is_set_up() {
        if config.auth.mode == AuthMode::None {
            tracing::warn!("auth.mode is none: whoever reaches this process may do everything");
        }
        return Ok(());
    }
    let is_certified = |place: &Listen| {
        let mut all = config.tcp.iter().filter(|listener| listener.listen == *place);
        all.all(|listener| listener.auth == TcpAuth::Certificate)
    };
    for (field, place) in places(config)? {
        if field == "tcp.listen" && is_certified(&place) {
            continue;
        }
        let addresses = addresses_of(&place, field).await?;
        let Some(address) = addresses.iter().find(|address| !address.ip().is_loopback()) else {
            continue;
        };
        let problem = format!(
            "{address} can be reached from other machines, and there is no token yet; set \
             auth.admin_token_file or RESEQ_AUTH_ADMIN_TOKEN, or auth.mode = \"none\" if \
             something else controls who can reach Reseq"
        );
        return Err(invalid(field, problem).into());
    }
    tracing::info!("there is no token: this process answers only requests from its own machine");
    Ok(())
}
