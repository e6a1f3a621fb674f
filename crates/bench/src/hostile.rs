//! Measures how thousands of idle and slow connections change the latency of other clients.
//!
//! Pairs of measurements alternate within one run: with and without the connections of strangers. Each
//! measurement sends the same steady load. A latency is the time from when a request was due until its answer.

use std::{
    fmt,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, interval, sleep, sleep_until},
};
use tools::{harness::Harness, quantiles::nearest_rank};

use super::{
    args::{BenchArgs, TransformArg, Transport},
    plan::Plan,
    progress::Progress,
    receive::{Receivers, Tally},
    report::{median, rounded},
    setup,
    surroundings::Surroundings,
};

/// A slow connection sends a byte at this interval.
const BYTE_EVERY: Duration = Duration::from_secs(1);
/// Ingest may have this many HTTP connections in addition to the connections of strangers.
const CONNECTIONS_MORE: usize = 2_000;
/// The length of each measurement without --seconds.
const SECONDS: u64 = 5;
/// Requests per second without --rate.
const RATE: f64 = 200.0;
/// The load runs for this long before it counts.
const WARM_UP: Duration = Duration::from_secs(1);
/// The most connections to open at once.
const OPENED_AT_ONCE: usize = 100;
/// The p99 among strangers may be at most this many times the p99 without them.
const RATIO_MAX: f64 = 2.0;

/// The measurements.
#[derive(Debug, Serialize)]
pub struct Hostile {
    pub idle: usize,
    pub slow: usize,
    pub rate: f64,
    pub seconds: u64,
    pub pairs: Vec<Pair>,
    /// The median of the ratios of all pairs.
    pub ratio_median: f64,
    /// The highest allowed median.
    pub ratio_max: f64,
    /// Problems, in words.
    pub problems: Vec<String>,
}

/// The latencies without and with the connections of strangers, in ms.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Pair {
    pub quiet_p50: f64,
    pub quiet_p99: f64,
    pub hostile_p50: f64,
    pub hostile_p99: f64,
    /// `hostile_p99` divided by `quiet_p99`.
    pub ratio: f64,
    /// Connections of strangers that were still open at the end.
    pub open: usize,
}

/// Starts all pods, and measures the pairs.
pub async fn measure(
    args: &BenchArgs,
    harness: &mut Harness,
    surroundings: &Surroundings,
    progress: &mut Progress,
) -> anyhow::Result<Hostile> {
    let args = BenchArgs {
        way_in: Transport::Http,
        transform: TransformArg::None,
        processors: Some(0),
        ..args.clone()
    };
    progress.note("starting the processes");
    let tally = Arc::new(Tally::new(Plan::of(&args)));
    let receivers =
        Receivers::start(args.way_out, args.framing.into(), tally, surroundings).await?;
    let mut config = setup::config(&args, surroundings, &receivers)?;
    config.http.connections_max = args.strangers as usize + CONNECTIONS_MORE;
    let listeners = setup::start_ingest(harness, &args, &config, surroundings).await?;
    setup::start_rest(harness, &args, &config).await?;
    let url = listeners.http.first().context("there is no ingest process")?;
    let address: SocketAddr = url.trim_start_matches("http://").parse()?;
    let load = Load {
        address,
        rate: args.rate.unwrap_or(RATE),
        time: Duration::from_secs(args.seconds.unwrap_or(SECONDS)),
        body_bytes: args.body_bytes as usize,
        connections: args.connections.unwrap_or(16) as usize,
        slow: args.strangers as usize / 6,
        idle: args.strangers as usize - args.strangers as usize / 6,
    };
    let count = args.hostile.unwrap_or(1);
    let mut pairs = Vec::new();
    for number in 0..count {
        progress.note(&format!("pair {} of {count}", number + 1));
        // The order alternates, so that a machine that becomes slower favours neither measurement.
        let pair = match number % 2 {
            0 => {
                let quiet = load.run().await?;
                Pair::of(quiet, load.run_among_strangers().await?)
            }
            _ => {
                let hostile = load.run_among_strangers().await?;
                Pair::of(load.run().await?, hostile)
            }
        };
        pairs.push(pair);
    }
    Ok(Hostile::of(pairs, &load))
}

impl Hostile {
    fn of(pairs: Vec<Pair>, load: &Load) -> Hostile {
        let ratio_median = median(pairs.iter().map(|pair| pair.ratio));
        let strangers = load.idle + load.slow;
        let lost = pairs.iter().filter(|pair| pair.open * 100 < strangers * 95).count();
        let problem = format!("in {lost} pair(s), connections of strangers were closed too early");
        Hostile {
            idle: load.idle,
            slow: load.slow,
            rate: load.rate,
            seconds: load.time.as_secs(),
            ratio_median: rounded(ratio_median, 2),
            ratio_max: RATIO_MAX,
            problems: (lost > 0).then_some(problem).into_iter().collect(),
            pairs,
        }
    }

    /// True if the median is within its limit, and there were no problems.
    pub fn is_well(&self) -> bool {
        self.ratio_median <= self.ratio_max && self.problems.is_empty()
    }
}

impl Pair {
    fn of(mut quiet: Vec<Duration>, (mut hostile, open): (Vec<Duration>, usize)) -> Pair {
        quiet.sort_unstable();
        hostile.sort_unstable();
        let at = |all: &[Duration], per_mille| {
            nearest_rank(all, per_mille).map_or(f64::INFINITY, |one| one.as_secs_f64() * 1000.0)
        };
        let (quiet_p99, hostile_p99) = (at(&quiet, 990), at(&hostile, 990));
        Pair {
            quiet_p50: rounded(at(&quiet, 500), 2),
            quiet_p99: rounded(quiet_p99, 2),
            hostile_p50: rounded(at(&hostile, 500), 2),
            hostile_p99: rounded(hostile_p99, 2),
            ratio: rounded(hostile_p99 / quiet_p99.max(1e-6), 2),
            open,
        }
    }
}

/// The load of regular clients.
#[derive(Debug, Clone, Copy)]
struct Load {
    address: SocketAddr,
    rate: f64,
    time: Duration,
    body_bytes: usize,
    connections: usize,
    /// Connections of strangers: some send nothing, others send a byte now and then.
    idle: usize,
    slow: usize,
}

impl Load {
    /// Sends at the rate. Returns, for each request, the time from when it was due until its answer.
    async fn run(&self) -> anyhow::Result<Vec<Duration>> {
        let begin = Instant::now() + Duration::from_millis(50);
        let end = begin + WARM_UP + self.time;
        let next = Arc::new(AtomicU64::new(0));
        let mut senders = JoinSet::new();
        for _ in 0..self.connections {
            let (load, next) = (*self, next.clone());
            senders.spawn(async move { load.send(begin, end, &next).await });
        }
        let mut all = Vec::new();
        while let Some(sent) = senders.join_next().await {
            all.extend(sent??);
        }
        Ok(all)
    }

    async fn run_among_strangers(&self) -> anyhow::Result<(Vec<Duration>, usize)> {
        let strangers = Strangers::open(self).await?;
        let took = self.run().await?;
        Ok((took, strangers.close().await))
    }

    /// Sends requests over one connection, each at its due time.
    async fn send(
        &self,
        begin: Instant,
        end: Instant,
        next: &AtomicU64,
    ) -> anyhow::Result<Vec<Duration>> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = setup::destination_name(0);
        let request = format!(
            "POST /v1/destinations/{name}/messages HTTP/1.1\r\nhost: localhost\r\n\
             content-length: {}\r\n\r\n{}",
            self.body_bytes,
            "x".repeat(self.body_bytes)
        );
        let mut took = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let due = begin + Duration::from_secs_f64(number as f64 / self.rate);
            if due >= end {
                return Ok(took);
            }
            sleep_until(due).await;
            stream.write_all(request.as_bytes()).await?;
            read_accepted(&mut stream).await?;
            if due >= begin + WARM_UP {
                took.push(due.elapsed());
            }
        }
    }
}

/// Reads an answer, which must be 202.
async fn read_accepted(stream: &mut TcpStream) -> anyhow::Result<()> {
    let mut answer = Vec::with_capacity(1024);
    loop {
        let count = stream.read_buf(&mut answer).await?;
        ensure!(count > 0, "ingest closed the connection of a producer");
        let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
        ensure!(head.starts_with("http/1.1 202"), "ingest answered {head:?}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.context("the answer has no length")?.trim().parse()?;
        if answer.len() >= end + 4 + length {
            return Ok(());
        }
    }
}

/// The connections of strangers.
struct Strangers {
    idle: Vec<TcpStream>,
    slow: JoinSet<bool>,
    stop: tokio::sync::watch::Sender<bool>,
}

impl Strangers {
    /// Opens all connections, and starts the slow ones.
    async fn open(load: &Load) -> anyhow::Result<Strangers> {
        let (mut opening, mut streams) = (JoinSet::new(), Vec::new());
        for _ in 0..load.idle + load.slow {
            if opening.len() >= OPENED_AT_ONCE {
                streams.extend(opened(opening.join_next().await)?);
            }
            opening.spawn(TcpStream::connect(load.address));
        }
        while !opening.is_empty() {
            streams.extend(opened(opening.join_next().await)?);
        }
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let mut slow = JoinSet::new();
        for (number, stream) in streams.split_off(load.idle).into_iter().enumerate() {
            slow.spawn(drip(stream, number, stopped.clone()));
        }
        // Wait until the cost of opening the connections has passed.
        sleep(Duration::from_secs(1)).await;
        Ok(Strangers { idle: streams, slow, stop })
    }

    /// Closes the connections. Returns how many were still open.
    async fn close(mut self) -> usize {
        let _ = self.stop.send(true);
        let mut open = 0;
        for stream in &self.idle {
            // If there is no data and no end to read, the connection is open.
            let read = stream.try_read(&mut [0]);
            open += usize::from(
                read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock),
            );
        }
        while let Some(was_open) = self.slow.join_next().await {
            open += usize::from(was_open.unwrap_or(false));
        }
        open
    }
}

fn opened(
    joined: Option<Result<std::io::Result<TcpStream>, tokio::task::JoinError>>,
) -> anyhow::Result<Option<TcpStream>> {
    let Some(joined) = joined else { bail!("no connection is being opened") };
    Ok(Some(joined?.context("opening the connection of a stranger")?))
}

/// Sends a byte now and then. Connections with an even number never end the head of a request; the others never end
/// the body. True if the connection was open at the end.
async fn drip(
    mut stream: TcpStream,
    number: usize,
    mut stopped: tokio::sync::watch::Receiver<bool>,
) -> bool {
    let name = setup::destination_name(0);
    let begin = match number % 2 {
        0 => "POST / HTTP/1.1\r\nhost: localhost\r\nx-slow: ".to_owned(),
        _ => format!(
            "POST /v1/destinations/{name}/messages HTTP/1.1\r\nhost: localhost\r\n\
             content-length: 1000\r\n\r\n"
        ),
    };
    if stream.write_all(begin.as_bytes()).await.is_err() {
        return false;
    }
    let mut ticks = interval(BYTE_EVERY);
    loop {
        tokio::select! {
            _ = stopped.changed() => return true,
            _ = ticks.tick() => {
                if stream.write_all(b"x").await.is_err() {
                    return false;
                }
            }
            read = stream.readable() => {
                let gone = stream.try_read(&mut [0; 64]);
                if read.is_err() || gone.is_ok() {
                    return false;
                }
            }
        }
    }
}

impl fmt::Display for Hostile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hostile { idle, slow, rate, seconds, .. } = self;
        writeln!(
            f,
            "{idle} idle and {slow} slow connections of strangers; {rate} requests a second of others, \
             measured for {seconds} s each time. Times in ms.\n"
        )?;
        let heads = ["p50", "p99", "p50 among strangers", "p99", "ratio", "open"];
        writeln!(f, "| {} |\n|{}", heads.join(" | "), " ---: |".repeat(heads.len()))?;
        for Pair { quiet_p50, quiet_p99, hostile_p50, hostile_p99, ratio, open } in &self.pairs {
            writeln!(
                f,
                "| {quiet_p50:.2} | {quiet_p99:.2} | {hostile_p50:.2} | {hostile_p99:.2} | {ratio:.2} | {open} |"
            )?;
        }
        self.problems.iter().try_for_each(|problem| writeln!(f, "Problem: {problem}"))?;
        let within = if self.ratio_median <= self.ratio_max { "yes" } else { "NO" };
        let (median, max) = (self.ratio_median, self.ratio_max);
        writeln!(f, "\nMedian of the ratios of the p99: {median:.2}. Within {max}: {within}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_pairs_counts() {
        let load = Load {
            address: ([127, 0, 0, 1], 1).into(),
            rate: 1.0,
            time: Duration::from_secs(1),
            body_bytes: 1,
            connections: 1,
            idle: 5,
            slow: 1,
        };
        let took = |ms: u64| (0..100).map(|_| Duration::from_millis(ms)).collect::<Vec<_>>();
        let pair = |quiet, hostile| Pair::of(took(quiet), (took(hostile), 6));
        let hostile = Hostile::of(vec![pair(10, 15), pair(10, 100), pair(10, 11)], &load);
        assert_eq!((hostile.ratio_median, hostile.is_well()), (1.5, true));
        let hostile = Hostile::of(vec![pair(10, 15), pair(10, 30)], &load);
        assert_eq!((hostile.ratio_median, hostile.is_well()), (2.25, false));
        let closed = Pair { open: 1, ..pair(10, 10) };
        assert!(!Hostile::of(vec![closed], &load).is_well());
        assert!(!Hostile::of(Vec::new(), &load).is_well());
    }
}
