//! `reseq check`: checks the configuration and Redis.

use std::{path::PathBuf, time::Duration};

use crate::{config::Config, redis_client::embedded::EmbeddedRedis, store::Store, tls};

/// Arguments of `reseq check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// Configuration file (TOML)
    #[arg(long, env = "RESEQ_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Prints what it finds; a problem is returned as the error.
pub async fn run(args: CheckArgs) -> anyhow::Result<()> {
    let mut config = Config::load(args.config.as_deref(), std::env::vars())?;
    tls::check(&config)?;
    let file = args.config.as_ref().map_or("none".into(), |path| path.display().to_string());
    println!(
        "configuration  ok: file {file}, {} destinations, {} TCP listeners",
        config.destinations.len(),
        config.tcp.len(),
    );
    let embedded = EmbeddedRedis::start_if_wanted(&mut config.redis).await?;
    let opened = Store::open(&config.redis, Duration::from_millis(config.sender.lease_ms)).await;
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
    fitness
        .warnings
        .iter()
        .chain(&fitness.lacks)
        .for_each(|warning| println!("warning        {warning}"));
    Ok(())
}
