//! Optional surroundings of the pods: tokens, TLS, Redis over TCP, a receiver of traces.

use std::{io, net::SocketAddr};

use anyhow::{Context, ensure};
use config::{Config, ListenerTls};
use serde_json::{Value, json};
use tools::harness::{Harness, free_addresses};

use super::{args::BenchArgs, collector::Collector, load::Listeners, tls::Tls};

/// The admin token, with `--tokens`. The bench uses it to create the token of the producers.
const ADMIN_TOKEN: &str = "the-admin-token-of-reseq-bench";

/// The surroundings of the pods.
pub struct Surroundings {
    redis_url: String,
    tls: Option<Tls>,
    has_tokens: bool,
    traces: Option<(Collector, f64)>,
}

impl Surroundings {
    /// Prepares the surroundings that the arguments request.
    pub async fn prepare(args: &BenchArgs, harness: &mut Harness) -> anyhow::Result<Surroundings> {
        let tls = args.tls.then(|| Tls::new(harness)).transpose()?;
        let redis_url = match (&tls, args.redis_tcp) {
            (None, false) => harness.redis_url(),
            (tls, _) => listen(harness, tls.as_ref()).await?,
        };
        let traces = match args.traces {
            Some(ratio) => Some((Collector::start().await?, ratio)),
            None => None,
        };
        let token = args.tokens.then_some(ADMIN_TOKEN);
        harness.call_with(token, tls.as_ref().map(|tls| tls.ca.as_str()))?;
        Ok(Surroundings { redis_url, tls, has_tokens: args.tokens, traces })
    }

    /// Sets these surroundings in the configuration that all pods share.
    pub fn apply(&self, config: &mut Config) {
        config.redis.url.clone_from(&self.redis_url);
        if let Some(tls) = &self.tls {
            tls.apply(config);
        }
        if self.has_tokens {
            config.auth.admin_token = ADMIN_TOKEN.to_owned();
        }
        if let Some((collector, ratio)) = &self.traces {
            config.tracing.otlp_endpoint = format!("http://{}", collector.address);
            config.tracing.sample_ratio = *ratio;
        }
    }

    /// The certificate of the listeners for producers; empty without `--tls`.
    pub fn of_listener(&self) -> ListenerTls {
        self.tls.as_ref().map(Tls::of_listener).unwrap_or_default()
    }

    /// True with `--tls`.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The address at which senders reach a receiver that speaks plain text.
    pub async fn before_receiver(&self, receiver: SocketAddr) -> io::Result<SocketAddr> {
        match &self.tls {
            Some(tls) => tls.before(receiver).await,
            None => Ok(receiver),
        }
    }

    /// The listeners, and the token, with which producers can send in plain text.
    pub async fn reached(
        &self,
        harness: &Harness,
        mut listeners: Listeners,
    ) -> anyhow::Result<Listeners> {
        if self.has_tokens {
            listeners.token = Some(token(harness, &listeners.http).await?);
        }
        let Some(tls) = &self.tls else { return Ok(listeners) };
        for url in &mut listeners.http {
            let address = url.trim_start_matches("https://").parse()?;
            *url = format!("http://{}", tls.behind(address).await?);
        }
        for address in &mut listeners.tcp {
            *address = tls.behind(*address).await?;
        }
        Ok(listeners)
    }

    /// Reports requested surroundings that had no effect. Call it after all pods have ended.
    pub fn problem(&self) -> Option<String> {
        let (collector, ratio) = self.traces.as_ref()?;
        // With a smaller ratio, no message may be traced.
        let is_missing = *ratio >= 1.0 && !collector.has_traces();
        is_missing.then(|| "no traces arrived".to_owned())
    }
}

/// Makes Redis listen on TCP too. Returns its URL.
async fn listen(harness: &Harness, tls: Option<&Tls>) -> anyhow::Result<String> {
    let address = *free_addresses(1)?.first().context("there is no free port")?;
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    harness.configure_redis(&[("bind", ip)]).await?;
    match tls {
        Some(tls) => {
            let files = harness.configure_redis(&tls.of_redis()).await;
            files.context("Redis must be built with TLS")?;
            harness.configure_redis(&[("tls-port", port)]).await?;
            Ok(format!("rediss://{address}"))
        }
        None => {
            harness.configure_redis(&[("port", port)]).await?;
            Ok(format!("redis://{address}"))
        }
    }
}

/// Creates a token for the producers, and makes all ingest processes read it.
async fn token(harness: &Harness, ingest: &[String]) -> anyhow::Result<String> {
    let first = ingest.first().context("there is no ingest process")?;
    let request = json!({"name": "bench", "scopes": ["ingest"]});
    let made = harness.client().post(format!("{first}/v1/tokens")).json(&request).send().await?;
    let made: Value = made.error_for_status()?.json().await?;
    let word = |field: &str| made[field].as_str().context("no token was made");
    let (token, id) = (word("token")?.to_owned(), word("id")?);
    for url in ingest {
        // A request for an unknown token makes a process read the token from Redis.
        let url = format!("{url}/v1/tokens/{id}");
        harness.client().get(&url).send().await?.error_for_status()?;
        let wrong = harness.client().get(&url).header("authorization", "Bearer wrong").send();
        ensure!(wrong.await?.status() == 401, "ingest does not ask for tokens");
    }
    Ok(token)
}
