//! The arguments of `reseq-bench`.

use std::path::PathBuf;

use anyhow::ensure;
use clap::{Args, ValueEnum, builder::ArgPredicate, value_parser};
use domain::{Envelope, Framing, Ordering};
use serde::Serialize;

/// The default microseconds of work, by other arguments. Only the transform `native` uses them.
const WORK: [(&str, &str, &str); 3] =
    [("transform", "none", "0"), ("transform", "jq", "0"), ("case", "sparse", "5000")];

/// The arguments of `reseq-bench`.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// A case by name, which sets the arguments that are not given. `sparse`: 1,000 destinations that get messages one
    /// at a time, 4,000 a second in all, with 5 ms of work each; HTTP batches in, 3 processes of each role.
    #[arg(long, conflicts_with_all = ["idle", "failover"])]
    pub case: Option<CaseArg>,
    /// The number of messages; 100000 if --messages, --seconds and --rate are not given.
    #[arg(long, conflicts_with = "seconds", value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    pub messages: Option<u64>,
    /// How many seconds to send messages; 10 if only --rate is given. With --idle: how many seconds to measure; 20 by
    /// default.
    #[arg(long, value_parser = value_parser!(u64).range(1..=86_400))]
    pub seconds: Option<u64>,
    /// Messages a second, evenly paced. Without it, the bench sends as fast as ingest accepts; with --failover, 64 a
    /// second in each lane.
    #[arg(long, default_value_if("case", "sparse", "4000"))]
    pub rate: Option<f64>,
    /// Send nothing, and measure what Redis and the pods use meanwhile.
    #[arg(long, conflicts_with_all = ["messages", "rate", "warm_up", "preload", "ramp"])]
    pub idle: bool,
    /// Pods of each role, with --idle; 3 by default.
    #[arg(long, requires = "idle", conflicts_with_all = ["ingest", "processors", "senders"])]
    #[arg(value_parser = value_parser!(u64).range(1..=64))]
    pub pods: Option<u64>,
    /// Kill a sender, start another, end one, start another, and measure how long the lanes of each stand still. Repeat
    /// this many times.
    #[arg(long, value_name = "TIMES", value_parser = value_parser!(u64).range(1..=1_000))]
    #[arg(conflicts_with_all = ["messages", "seconds", "warm_up", "preload", "ramp", "idle"])]
    pub failover: Option<u64>,
    /// Measure the latency of HTTP requests without and with thousands of idle and slow connections of strangers.
    /// Repeat this many times; 10 by default.
    #[arg(long, value_name = "PAIRS", num_args = 0..=1, default_missing_value = "10")]
    #[arg(value_parser = value_parser!(u64).range(1..=1_000))]
    #[arg(conflicts_with_all = ["messages", "warm_up", "preload", "ramp", "idle", "failover", "case", "tokens", "tls"])]
    pub hostile: Option<u64>,
    /// Connections of strangers, with --hostile: five of six send nothing, the others send a byte a second each.
    #[arg(long, requires = "hostile", default_value_t = 6_000, value_parser = value_parser!(u64).range(6..=60_000))]
    pub strangers: u64,
    /// The most messages that are sent and not answered yet, over all connections (TCP).
    #[arg(long, default_value_t = 4096, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub window: u64,
    /// The most messages that are sent and not delivered yet. This many messages wait, even if ingest is faster.
    #[arg(long, conflicts_with = "preload", value_parser = value_parser!(u64).range(1..=100_000_000))]
    pub pending: Option<u64>,
    /// The most messages that a sender sends in each lane before the first of them is answered (TCP).
    #[arg(long, default_value_t = 256, value_parser = value_parser!(u32).range(1..=1000))]
    pub out_window: u32,
    /// Which messages stay in order.
    #[arg(long, default_value = "destination")]
    pub ordering: OrderingArg,
    /// The number of destinations. They get messages in turn.
    #[arg(
        long,
        default_value_t = 1,
        default_value_if("case", "sparse", "1000"),
        default_value_if("failover", ArgPredicate::IsPresent, "20")
    )]
    #[arg(value_parser = value_parser!(u64).range(1..=100_000))]
    pub destinations: u64,
    /// The number of ordering keys of each destination, used in turn (over TCP in JSON envelopes).
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u64).range(1..=100_000_000))]
    pub keys: u64,
    /// The number of bytes of a body.
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u64).range(24..=1_000_000))]
    pub body_bytes: u64,
    /// `native`: work in the processors, in Rust; `jq`: a different expression for each destination, which does not
    /// change messages; `none`: messages are ready at once.
    #[arg(long, default_value = "native")]
    #[arg(default_value_if("failover", ArgPredicate::IsPresent, "none"))]
    pub transform: TransformArg,
    /// The shortest work, in microseconds (waiting; timers round up to whole milliseconds).
    #[arg(long, default_value_t = 0, default_value_ifs(WORK))]
    pub work_min_us: u64,
    /// The longest work, in microseconds.
    #[arg(long, default_value_t = 0, default_value_ifs(WORK))]
    pub work_max_us: u64,
    /// The most messages in work at once in each processor.
    #[arg(long, default_value_t = 256, value_parser = value_parser!(u64).range(1..=100_000))]
    pub concurrency: u64,
    /// How messages come in.
    #[arg(long = "in", default_value = "tcp", default_value_if("case", "sparse", "http-batch"))]
    pub way_in: Transport,
    /// How messages go out.
    #[arg(long = "out", default_value = "tcp")]
    pub way_out: Transport,
    /// The number of messages of one request with `http-batch`.
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u64).range(1..=1_000))]
    pub batch: u64,
    /// Connections to ingest. By default 1 for each destination over TCP, 16 over HTTP, 4 with batches.
    #[arg(long, value_parser = value_parser!(u64).range(1..=1_000))]
    pub connections: Option<u64>,
    /// How messages are separated over TCP.
    #[arg(long, default_value = "length")]
    pub framing: FramingArg,
    /// The number of ingest processes.
    #[arg(long, default_value_t = 1, default_value_if("case", "sparse", "3"), value_parser = value_parser!(u64).range(1..=64))]
    pub ingest: u64,
    /// The number of processor processes; by default none with --transform none.
    #[arg(long, default_value_if("case", "sparse", "3"), value_parser = value_parser!(u64).range(0..=64))]
    pub processors: Option<u64>,
    /// Let the ingest processes be the processors too.
    #[arg(long, conflicts_with = "idle")]
    pub together: bool,
    /// The number of sender processes.
    #[arg(
        long,
        default_value_t = 1,
        default_value_if("case", "sparse", "3"),
        default_value_if("failover", ArgPredicate::IsPresent, "2")
    )]
    #[arg(value_parser = value_parser!(u64).range(1..=64))]
    pub senders: u64,
    /// Require a token from producers. They send it with each request, or once on each TCP connection.
    #[arg(long)]
    pub tokens: bool,
    /// Use TLS from producers, to Redis (over TCP) and to the receiver.
    #[arg(long)]
    pub tls: bool,
    /// Reach Redis over TCP instead of its Unix socket. --tls does this too.
    #[arg(long)]
    pub redis_tcp: bool,
    /// Send traces of this share of the messages, 0 to 1, to a receiver that discards them.
    #[arg(long, value_name = "RATIO")]
    pub traces: Option<f64>,
    /// The number of settled messages that the log of each destination keeps.
    #[arg(long, default_value_t = 0)]
    pub log_max: u64,
    /// Send an idempotency key with each message (over TCP in JSON envelopes).
    #[arg(long)]
    pub idempotency_keys: bool,
    /// The number of messages that are sent first and not counted.
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u64).range(0..=100_000_000))]
    pub warm_up: u64,
    /// Start processors and senders only when all messages are accepted, to measure only the drain.
    #[arg(long, conflicts_with = "warm_up")]
    pub preload: bool,
    /// After the run, measure the latency at these percentages of the throughput.
    #[arg(long, value_delimiter = ',', conflicts_with = "preload", value_parser = value_parser!(u64).range(1..=200))]
    pub ramp: Vec<u64>,
    /// The length of each step of the ramp, in seconds.
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u64).range(1..=3600))]
    pub ramp_seconds: u64,
    /// The seed of the random work. The same seed gives the same work.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the report as one line of JSON, and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Draw a chart of the ramp into this file.
    #[arg(long, value_name = "FILE", requires = "ramp")]
    pub svg: Option<PathBuf>,
    /// The program of ingest and of the senders; by default the `reseq` beside this program. Processors run this
    /// program, which has the work linked in.
    #[arg(long, value_name = "PATH")]
    pub reseq: Option<PathBuf>,
    /// Set a field of the configuration, such as `sender.release_batch_max=512`. A field `destination.…` is set for all
    /// destinations.
    #[arg(long, value_name = "FIELD=VALUE")]
    pub set: Vec<String>,
}

/// A case by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaseArg {
    /// Many quiet destinations.
    Sparse,
}

/// How messages come in or go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Frames, many in flight.
    Tcp,
    /// One message in each request.
    Http,
    /// Many messages in each request.
    HttpBatch,
}

/// Which messages stay in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderingArg {
    Destination,
    Key,
    None,
}

/// Which transform does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransformArg {
    None,
    Native,
    Jq,
}

/// How messages are separated over TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FramingArg {
    Lines,
    Length,
}

impl From<OrderingArg> for Ordering {
    fn from(arg: OrderingArg) -> Ordering {
        match arg {
            OrderingArg::Destination => Ordering::Destination,
            OrderingArg::Key => Ordering::Key,
            OrderingArg::None => Ordering::None,
        }
    }
}

impl From<FramingArg> for Framing {
    fn from(arg: FramingArg) -> Framing {
        match arg {
            FramingArg::Lines => Framing::Lines,
            FramingArg::Length => Framing::Length,
        }
    }
}

impl BenchArgs {
    /// Refuses combinations that clap cannot refuse.
    pub fn check(&self) -> anyhow::Result<()> {
        let (min, max) = (self.work_min_us, self.work_max_us);
        ensure!(min <= max, "--work-min-us {min} is above --work-max-us {max}");
        ensure!(
            self.transform == TransformArg::Native || max == 0,
            "only --transform native takes --work-max-us; leave it out, or use --transform native"
        );
        ensure!(
            self.transform == TransformArg::None || self.processors != Some(0),
            "a transform needs a processor; leave out --processors 0, or use --transform none"
        );
        ensure!(
            self.failover.is_none() || self.senders >= 2,
            "--failover needs a sender that takes over; leave out --senders, or use 2 or more"
        );
        let ratio = self.traces.unwrap_or(0.0);
        ensure!((0.0..=1.0).contains(&ratio), "--traces {ratio} is outside 0 to 1");
        let rate = self.rate.unwrap_or(1.0);
        ensure!(
            rate.is_finite() && (0.01..=1e7).contains(&rate),
            "--rate {rate} is outside 0.01 to 10000000"
        );
        Ok(())
    }

    /// The content of the producers' frames over TCP.
    pub fn envelope(&self) -> Envelope {
        match self.keys > 1 || self.idempotency_keys {
            true => Envelope::Json,
            false => Envelope::None,
        }
    }

    /// The number of connections to ingest.
    pub fn streams(&self) -> u64 {
        match self.way_in {
            // A listener feeds one destination. Use a multiple of the destinations, so that each has the same number of
            // connections.
            Transport::Tcp => {
                let of_each = self.connections.unwrap_or(0) / self.destinations;
                self.destinations * of_each.max(1)
            }
            Transport::Http => self.connections.unwrap_or(16),
            Transport::HttpBatch => self.connections.unwrap_or(4),
        }
    }

    /// The number of processes that do the work.
    pub fn working(&self) -> u64 {
        if self.together { self.ingest } else { self.processors() }
    }

    /// The number of processes that are only processors.
    pub fn processors(&self) -> u64 {
        if self.together {
            return 0;
        }
        self.processors.unwrap_or((self.transform != TransformArg::None).into())
    }
}
