//! `reseq migrate`: raises the schema of the data in Redis, once all pods have this version.

use std::{path::PathBuf, time::Duration};

use anyhow::bail;

use config::Config;
use redis_client::embedded::EmbeddedRedis;
use store::{OlderPod, Store, known_schema};

/// The progress is reported after this many partitions.
const TELL_EVERY: u16 = 16;

/// Arguments of `reseq migrate`.
#[derive(Debug, clap::Args)]
pub struct MigrateArgs {
    /// Configuration file (TOML)
    #[arg(long, env = "RESEQ_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Only show what would be done
    #[arg(long)]
    pub dry_run: bool,
}

/// Migrates, or shows what it would do. It is safe to interrupt it and run it again.
pub async fn run(args: MigrateArgs) -> anyhow::Result<()> {
    let mut config = Config::load(args.config.as_deref(), std::env::vars())?;
    tls::check(&config)?;
    let embedded = EmbeddedRedis::start_if_wanted(&mut config.redis).await?;
    let opened = Store::open(&config.redis, Duration::from_millis(config.sender.lease_ms)).await;
    let result = match opened {
        Ok((store, _)) => {
            let migrated = migrate(&store, args.dry_run).await;
            store.leave_pods().await;
            migrated
        }
        Err(error) => Err(error.into()),
    };
    if let Some(embedded) = embedded {
        embedded.stop().await?;
    }
    result
}

async fn migrate(store: &Store, dry_run: bool) -> anyhow::Result<()> {
    let target = known_schema();
    let schemas = store.schemas().await?;
    let (all, behind) = (schemas.len(), schemas.iter().filter(|schema| **schema < target).count());
    println!("{behind} of {all} partitions are to be raised to schema {target}");
    if behind == 0 {
        println!("nothing to do");
        return Ok(());
    }
    refuse_older(&store.older_pods().await?)?;
    if dry_run {
        println!("dry run: nothing was changed; all live pods know schema {target}");
        return Ok(());
    }
    // From here on, no older pod can start. An older pod that has just started is in the list now.
    let before = store.set_meta_schema(target).await?;
    if let Err(refusal) = refuse_older(&store.older_pods().await?) {
        store.set_meta_schema(before).await?;
        return Err(refusal);
    }
    for partition in 0..store.keys().partitions() {
        store.migrate(partition).await?;
        if (partition + 1) % TELL_EVERY == 0 {
            println!("{} of {all} partitions are done", partition + 1);
        }
    }
    println!("all {all} partitions have schema {target}");
    Ok(())
}

fn refuse_older(older: &[OlderPod]) -> anyhow::Result<()> {
    if older.is_empty() {
        return Ok(());
    }
    let list = older.iter().map(|pod| format!("{} (schema {})", pod.name, pod.known));
    let list = list.collect::<Vec<_>>().join(", ");
    bail!(
        "nothing was changed: {} live pods have an older version: {list}. Stop them, or replace them \
         by this version, and run this again",
        older.len()
    )
}
