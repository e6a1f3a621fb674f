//! Starts and configures the processes of the bench.

use std::{ffi::OsString, net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context, bail};
use config::Config;
use domain::{Destination, DestinationName, TransformKind};
use toml::Value;
use tools::harness::{Harness, PodArgs, SHUTDOWN_MAX, free_addresses};

use super::{
    args::{BenchArgs, TransformArg, Transport},
    load::Listeners,
    processor, program,
    receive::Receivers,
    surroundings::Surroundings,
};

/// A limit of the backlog that no run reaches.
const MAX_BACKLOG: u64 = 1 << 40;
/// The time limit of an attempt is its longest work plus this.
const WORK_SLACK: Duration = Duration::from_secs(30);

/// The name of a destination.
pub fn destination_name(number: u64) -> String {
    format!("bench-{number}")
}

/// The configuration that all processes share.
pub fn config(
    args: &BenchArgs,
    surroundings: &Surroundings,
    receivers: &Receivers,
) -> anyhow::Result<Config> {
    let mut config = Config::default();
    surroundings.apply(&mut config);
    // The receivers are on this machine.
    config.outgoing.allow = vec!["127.0.0.0/8".parse().map_err(anyhow::Error::msg)?];
    let connections_max = &mut config.ingest.connections_max;
    *connections_max = (*connections_max).max(args.streams() as usize);
    config.processor.concurrency = args.concurrency as usize;
    config.shutdown_ms = SHUTDOWN_MAX.as_millis() as u64;
    for number in 0..args.destinations {
        config.destinations.push(destination(args, number, receivers)?);
    }
    let config = args.set.iter().try_fold(config, |config, assignment| set(config, assignment))?;
    config.validate().context("the bench's own configuration")?;
    Ok(config)
}

fn destination(
    args: &BenchArgs,
    number: u64,
    receivers: &Receivers,
) -> anyhow::Result<Destination> {
    let name: DestinationName = destination_name(number).parse()?;
    let mut destination = Destination::new(name, receivers.url());
    destination.ordering = args.ordering.into();
    destination.backlog_max = MAX_BACKLOG;
    destination.log_max = args.log_max;
    destination.delivery.framing = args.framing.into();
    match args.way_out {
        Transport::HttpBatch => destination.delivery.batch_max = args.batch as u32,
        Transport::Tcp => destination.delivery.window_max = args.out_window,
        Transport::Http => {}
    }
    let transform = &mut destination.transform;
    transform.concurrency = args.concurrency as u32;
    match args.transform {
        TransformArg::None => {}
        TransformArg::Native => {
            transform.kind = TransformKind::Native;
            transform.name = Some(processor::NAME.to_owned());
            let longest = Duration::from_micros(args.work_max_us) + WORK_SLACK;
            transform.timeout_ms = longest.as_millis() as u64;
        }
        TransformArg::Jq => {
            transform.kind = TransformKind::Jq;
            // Each destination has a different expression. All expressions have the same result.
            transform.expression = Some(format!("({number} | empty), ."));
        }
    }
    Ok(destination)
}

/// Sets one field: `sender.release_batch_max=512`, or `destination.delivery.lanes_max=8` for all destinations.
fn set(config: Config, assignment: &str) -> anyhow::Result<Config> {
    let (path, text) = assignment
        .split_once('=')
        .with_context(|| format!("--set {assignment}: write FIELD=VALUE"))?;
    let parsed: Result<toml::Table, _> = toml::from_str(&format!("value = {text}"));
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    let value = value.unwrap_or_else(|| Value::String(text.to_owned()));
    let mut whole = Value::try_from(&config)?;
    let fields: Vec<&str> = path.split('.').collect();
    put(&mut whole, &fields, &value).with_context(|| format!("--set {assignment}"))?;
    whole.try_into().with_context(|| format!("--set {assignment}"))
}

/// Sets the field at this path. Within a list, sets the field of each item.
fn put(whole: &mut Value, path: &[&str], value: &Value) -> anyhow::Result<()> {
    match (whole, path) {
        (Value::Array(items), path) => items.iter_mut().try_for_each(|item| put(item, path, value)),
        (Value::Table(table), [field]) => {
            table.insert((*field).to_owned(), value.clone());
            Ok(())
        }
        (Value::Table(table), [field, rest @ ..]) => {
            let inner = table.get_mut(*field).with_context(|| format!("there is no {field}"))?;
            put(inner, rest, value)
        }
        _ => bail!("there is no such field"),
    }
}

/// Starts the ingest processes. Returns their listeners.
pub async fn start_ingest(
    harness: &mut Harness,
    args: &BenchArgs,
    config: &Config,
    surroundings: &Surroundings,
) -> anyhow::Result<Listeners> {
    let streams = args.streams();
    let mut cast = Vec::new();
    let mut tcp: Vec<Option<SocketAddr>> = vec![None; streams as usize];
    for process in 0..args.ingest {
        let mut config = config.clone();
        config.http.tls = surroundings.of_listener();
        // Spread the streams of a destination over the processes, with a listener for each stream.
        let here: Vec<u64> = match args.way_in {
            Transport::Tcp => {
                (0..streams).filter(|stream| stream % args.ingest == process).collect()
            }
            Transport::Http | Transport::HttpBatch => Vec::new(),
        };
        for (stream, listen) in here.iter().zip(free_addresses(here.len())?) {
            let destination = destination_name(stream % args.destinations).parse()?;
            let framing = args.framing.into();
            let envelope = args.envelope();
            let (auth, tls) = (config::TcpAuth::default(), surroundings.of_listener());
            config.tcp.push(config::TcpListener {
                listen: listen.into(),
                destination,
                framing,
                envelope,
                auth,
                tls,
            });
            tcp[*stream as usize] = Some(listen);
        }
        let path = harness.write(&format!("ingest-{}", process + 1), &config)?;
        let number = process as usize + 1;
        let pod = match args.together && args.transform == TransformArg::Native {
            true => with_work("ingest", number, args, &path)?,
            false if args.together => {
                PodArgs::of_roles("ingest", "ingest,processor", number, &path)
            }
            false => PodArgs::serving("ingest", number, &path),
        };
        cast.push(PodArgs { is_tls: surroundings.is_tls(), ..pod });
    }
    harness.start(cast).await?;
    let http = harness.of_role("ingest").map(|process| process.url.clone()).collect();
    let tcp = tcp.into_iter().flatten().collect();
    surroundings.reached(harness, Listeners { http, tcp, token: None }).await
}

/// Starts the processors and the senders, and waits until they share the partitions.
pub async fn start_rest(
    harness: &mut Harness,
    args: &BenchArgs,
    config: &Config,
) -> anyhow::Result<()> {
    let path = harness.write("reseq", config)?;
    let processor = |number| match args.transform {
        TransformArg::Native => with_work("processor", number as usize, args, &path),
        TransformArg::Jq | TransformArg::None => {
            Ok(PodArgs::serving("processor", number as usize, &path))
        }
    };
    let processors: anyhow::Result<Vec<PodArgs>> = (1..=args.processors()).map(processor).collect();
    let sender = |number| PodArgs::serving("sender", number as usize, &path);
    let cast = processors?.into_iter().chain((1..=args.senders).map(sender));
    harness.start(cast).await
}

/// A process of this program, which has the work of the bench linked in: a processor. With `ingest`, it has that role
/// too.
fn with_work(
    role: &'static str,
    number: usize,
    args: &BenchArgs,
    config: &Path,
) -> anyhow::Result<PodArgs> {
    let mut words = vec![OsString::from("processor"), "--config".into(), config.into()];
    let work = [
        ("--seed", args.seed),
        ("--work-min-us", args.work_min_us),
        ("--work-max-us", args.work_max_us),
    ];
    words.extend(work.iter().flat_map(|(name, value)| [(*name).into(), value.to_string().into()]));
    words.extend((role == "ingest").then(|| "--ingest".into()));
    Ok(PodArgs { role, number, program: Some(program::this()?), arguments: words, is_tls: false })
}

/// Starts one more sender, and waits until it is ready.
pub async fn start_sender(
    harness: &mut Harness,
    config: &Config,
    number: u64,
) -> anyhow::Result<()> {
    let path = harness.write("reseq", config)?;
    harness.start([PodArgs::serving("sender", number as usize, &path)]).await
}

/// Waits until the senders share the partitions. False if they do not share them within three leases.
pub async fn wait_until_shared(harness: &Harness, config: &Config) -> bool {
    let limit = Duration::from_millis(3 * config.sender.lease_ms);
    harness.wait_until_shared(config.redis.partitions.into(), limit).await
}
