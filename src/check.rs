//! `reseq check`: checks the configuration and Redis.

use std::{path::PathBuf, time::Duration};

use config::Config;
use redis_client::embedded::EmbeddedRedis;
use store::{Keyring, SecretsFound, ServerState, Store, StoreError};

/// Arguments of `reseq check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// Configuration file (TOML)
    #[arg(long, env = "RESEQ_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Prints the results of the checks. Returns a problem as the error.
pub async fn run(args: CheckArgs) -> anyhow::Result<()> {
    let mut config = Config::load(args.config.as_deref(), std::env::vars())?;
    tls::check(&config)?;
    telemetry::check_level(&config.log.level).map_err(anyhow::Error::msg)?;
    let file = args.config.as_ref().map_or("none".into(), |path| path.display().to_string());
    println!(
        "configuration  ok: file {file}, {} destinations, {} TCP listeners",
        config.destinations.len(),
        config.tcp.len(),
    );
    let embedded = EmbeddedRedis::start_if_wanted(&mut config.redis).await?;
    let keyring = Keyring::new(&config.secrets.keys()?);
    let current = keyring.current().map(str::to_owned);
    let lease = Duration::from_millis(config.sender.lease_ms);
    let opened = Store::open_with(&config.redis, lease, keyring, store::pod_name()).await;
    let (secrets, servers) = match &opened {
        Ok((store, _)) => {
            store.leave_pods().await;
            (Some(store.secrets_found().await), store.examine_servers().await)
        }
        Err(_) => (None, Vec::new()),
    };
    if let Some(embedded) = embedded {
        embedded.stop().await?;
    }
    let (_, fitness) = opened?;
    println!(
        "Redis          ok: {}, version {}, {} partitions",
        config.redis.url_masked(),
        fitness.version,
        config.redis.partitions,
    );
    let secrets = secrets.transpose()?.unwrap_or_default();
    println!("secrets        {}", secrets_line(&secrets, current.as_deref()));
    fitness
        .warnings
        .iter()
        .chain(&fitness.lacks)
        .chain(&syncs_skipped(&servers))
        .chain(&secrets.advice())
        .for_each(|warning| println!("warning        {warning}"));
    let missing: Vec<String> = secrets.missing_keys().collect();
    anyhow::ensure!(missing.is_empty(), missing.join("\n"));
    Ok(())
}

/// A warning for each server that does not sync its append-only file while it saves or rewrites data.
fn syncs_skipped(servers: &[(String, Result<ServerState, StoreError>)]) -> Vec<String> {
    let states = servers.iter().filter_map(|(name, state)| Some((name, state.as_ref().ok()?)));
    let skipping = states.filter(|(_, state)| state.appends && state.skips_syncs);
    let warning = |name| {
        format!(
            "While {name} saves or rewrites, it does not sync its append-only file, whatever appendfsync \
             says. Set no-appendfsync-on-rewrite no."
        )
    };
    skipping.map(|(name, _)| warning(name)).collect()
}

/// How the secrets of destinations are stored, in one line.
fn secrets_line(found: &SecretsFound, current: Option<&str>) -> String {
    match current {
        Some(id) => format!(
            "those of {} destinations are encrypted with the current key {id}",
            found.current
        ),
        None => "no secrets.key: those of destinations are stored in plain text".to_owned(),
    }
}
