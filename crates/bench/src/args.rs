//! The arguments of `reseq-bench`.

use std::path::PathBuf;

use anyhow::ensure;
use clap::{Args, ValueEnum, builder::ArgPredicate, value_parser};
use domain::{Envelope, Framing, Ordering};
use serde::Serialize;

/// The default microseconds of work, by other arguments. Only `native` does work.
const WORK: [(&str, &str, &str); 3] =
    [("transform", "none", "0"), ("transform", "jq", "0"), ("case", "sparse", "5000")];

/// The arguments of `reseq-bench`.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// A case by name: sets the arguments that are not given. `sparse`: 1,000 destinations that get their messages
    /// one at a time, 4,000 a second in all, 5 ms of work each; HTTP batches in, 3 processes of each role.
    #[arg(long, conflicts_with_all = ["idle", "failover"])]
    pub case: Option<CaseArg>,
    /// How many messages; 100000 if neither this, --seconds nor --rate is given.
    #[arg(long, conflicts_with = "seconds", value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    pub messages: Option<u64>,
    /// For how many seconds to send, 10 if only --rate is given; with --idle, to measure, 20 unless given.
    #[arg(long, value_parser = value_parser!(u64).range(1..=86_400))]
    pub seconds: Option<u64>,
    /// Messages a second, evenly paced. Without it, as fast as they are taken; with --failover 64 in
    /// each lane.
    #[arg(long, default_value_if("case", "sparse", "4000"))]
    pub rate: Option<f64>,
    /// Send nothing, and measure what Redis and the pods use meanwhile.
    #[arg(long, conflicts_with_all = ["messages", "rate", "warm_up", "preload", "ramp"])]
    pub idle: bool,
    /// Pods of each role, with --idle; 3 unless given.
    #[arg(long, requires = "idle", conflicts_with_all = ["ingest", "processors", "senders"])]
    #[arg(value_parser = value_parser!(u64).range(1..=64))]
    pub pods: Option<u64>,
    /// Kill a sender, start another, end one, start another, and measure how long its lanes stand still;
    /// this many times.
    #[arg(long, value_name = "TIMES", value_parser = value_parser!(u64).range(1..=1_000))]
    #[arg(conflicts_with_all = ["messages", "seconds", "warm_up", "preload", "ramp", "idle"])]
    pub failover: Option<u64>,
    /// Measure the latency of HTTP requests without and with thousands of idle and slow connections of
    /// strangers; this many times, 10 unless given.
    #[arg(long, value_name = "PAIRS", num_args = 0..=1, default_missing_value = "10")]
    #[arg(value_parser = value_parser!(u64).range(1..=1_000))]
    #[arg(conflicts_with_all = ["messages", "warm_up", "preload", "ramp", "idle", "failover", "case", "tokens", "tls"])]
    pub hostile: Option<u64>,
    /// Connections of strangers, with --hostile: five of six say nothing, the others a byte a second.
    #[arg(long, requires = "hostile", default_value_t = 6_000, value_parser = value_parser!(u64).range(6..=60_000))]
    pub strangers: u64,
    /// Messages that are sent and not answered yet, at most, over all connections (TCP).
    #[arg(long, default_value_t = 4096, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub window: u64,
    /// Messages that are sent and not delivered yet, at most: this many wait, whatever the speed.
    #[arg(long, conflicts_with = "preload", value_parser = value_parser!(u64).range(1..=100_000_000))]
    pub pending: Option<u64>,
    /// Messages that a sender sends before the first of them is answered, in each lane (TCP).
    #[arg(long, default_value_t = 256, value_parser = value_parser!(u32).range(1..=1000))]
    pub out_window: u32,
    /// What stays in order.
    #[arg(long, default_value = "destination")]
    pub ordering: OrderingArg,
    /// Destinations, in turn.
    #[arg(
        long,
        default_value_t = 1,
        default_value_if("case", "sparse", "1000"),
        default_value_if("failover", ArgPredicate::IsPresent, "20")
    )]
    #[arg(value_parser = value_parser!(u64).range(1..=100_000))]
    pub destinations: u64,
    /// Ordering keys of each destination, in turn (over TCP in JSON envelopes).
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u64).range(1..=100_000_000))]
    pub keys: u64,
    /// Bytes of a body.
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u64).range(24..=1_000_000))]
    pub body_bytes: u64,
    /// `native`: work in the processors, in Rust; `jq`: an expression of its own for each destination, which leaves
    /// messages as they are; `none`: messages are ready at once.
    #[arg(long, default_value = "native")]
    #[arg(default_value_if("failover", ArgPredicate::IsPresent, "none"))]
    pub transform: TransformArg,
    /// The shortest work, in microseconds (waiting; timers round up to whole milliseconds).
    #[arg(long, default_value_t = 0, default_value_ifs(WORK))]
    pub work_min_us: u64,
    /// The longest work, in microseconds.
    #[arg(long, default_value_t = 0, default_value_ifs(WORK))]
    pub work_max_us: u64,
    /// Messages in work at once, in each processor.
    #[arg(long, default_value_t = 256, value_parser = value_parser!(u64).range(1..=100_000))]
    pub concurrency: u64,
    /// How messages come in.
    #[arg(long = "in", default_value = "tcp", default_value_if("case", "sparse", "http-batch"))]
    pub way_in: Transport,
    /// How they go out.
    #[arg(long = "out", default_value = "tcp")]
    pub way_out: Transport,
    /// Messages of one request, where a way is `http-batch`.
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u64).range(1..=1_000))]
    pub batch: u64,
    /// Connections to ingest: 1 for each destination over TCP, 16 over HTTP, 4 with batches, unless given.
    #[arg(long, value_parser = value_parser!(u64).range(1..=1_000))]
    pub connections: Option<u64>,
    /// How messages are told apart over TCP.
    #[arg(long, default_value = "length")]
    pub framing: FramingArg,
    /// Ingest processes.
    #[arg(long, default_value_t = 1, default_value_if("case", "sparse", "3"), value_parser = value_parser!(u64).range(1..=64))]
    pub ingest: u64,
    /// Processor processes; none with --transform none, unless given.
    #[arg(long, default_value_if("case", "sparse", "3"), value_parser = value_parser!(u64).range(0..=64))]
    pub processors: Option<u64>,
    /// The ingest processes are the processors, too.
    #[arg(long, conflicts_with = "idle")]
    pub together: bool,
    /// Sender processes.
    #[arg(
        long,
        default_value_t = 1,
        default_value_if("case", "sparse", "3"),
        default_value_if("failover", ArgPredicate::IsPresent, "2")
    )]
    #[arg(value_parser = value_parser!(u64).range(1..=64))]
    pub senders: u64,
    /// Ask producers for a token, which they send with each request, or once on each TCP connection.
    #[arg(long)]
    pub tokens: bool,
    /// TLS from producers, to Redis (over TCP) and to the receiver.
    #[arg(long)]
    pub tls: bool,
    /// Reach Redis over TCP, not over its Unix socket, as with --tls.
    #[arg(long)]
    pub redis_tcp: bool,
    /// Send traces of this share of the messages, 0 to 1, to a receiver that discards them.
    #[arg(long, value_name = "RATIO")]
    pub traces: Option<f64>,
    /// Settled messages that the log of each destination holds.
    #[arg(long, default_value_t = 0)]
    pub log_max: u64,
    /// Send an idempotency key with each message (over TCP in JSON envelopes).
    #[arg(long)]
    pub idempotency_keys: bool,
    /// Messages that are sent first and not counted.
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u64).range(0..=100_000_000))]
    pub warm_up: u64,
    /// Start processors and senders only when everything has been accepted: the drain alone.
    #[arg(long, conflicts_with = "warm_up")]
    pub preload: bool,
    /// Then measure the latency at these percentages of the throughput.
    #[arg(long, value_delimiter = ',', conflicts_with = "preload", value_parser = value_parser!(u64).range(1..=200))]
    pub ramp: Vec<u64>,
    /// The length of each step of the ramp.
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u64).range(1..=3600))]
    pub ramp_seconds: u64,
    /// The same seed draws the same work.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the report as one line of JSON, and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Draw the ramp into this file.
    #[arg(long, value_name = "FILE", requires = "ramp")]
    pub svg: Option<PathBuf>,
    /// The program of ingest and of the senders; the `reseq` beside this program unless given.
    /// Processors are this program, which has their work linked in.
    #[arg(long, value_name = "PATH")]
    pub reseq: Option<PathBuf>,
    /// Set a field of the configuration, such as `sender.release_batch_max=512`; `destination.…` is set for all
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

/// A way in or out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Frames, many in flight.
    Tcp,
    /// One message a request.
    Http,
    /// Many messages a request.
    HttpBatch,
}

/// What stays in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderingArg {
    Destination,
    Key,
    None,
}

/// Who works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransformArg {
    None,
    Native,
    Jq,
}

/// How messages are told apart.
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
    /// Refuses arguments that clap cannot refuse.
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

    /// The content of the producers' frames, over TCP.
    pub fn envelope(&self) -> Envelope {
        match self.keys > 1 || self.idempotency_keys {
            true => Envelope::Json,
            false => Envelope::None,
        }
    }

    /// Connections to ingest.
    pub fn streams(&self) -> u64 {
        match self.way_in {
            // A listener feeds one destination, so that each has as many as the others.
            Transport::Tcp => {
                let of_each = self.connections.unwrap_or(0) / self.destinations;
                self.destinations * of_each.max(1)
            }
            Transport::Http => self.connections.unwrap_or(16),
            Transport::HttpBatch => self.connections.unwrap_or(4),
        }
    }

    /// Processes that do the work.
    pub fn working(&self) -> u64 {
        if self.together { self.ingest } else { self.processors() }
    }

    /// Processes that are processors only.
    pub fn processors(&self) -> u64 {
        if self.together {
            return 0;
        }
        self.processors.unwrap_or((self.transform != TransformArg::None).into())
    }
}
