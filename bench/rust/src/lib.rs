//! What the peers in Rust share: the arguments, the work, the count of what is done, the result.

use std::{
    fs, process,
    time::{Duration, Instant},
};

use clap::{Parser, ValueEnum};
use serde_json::json;

/// How large a message is.
pub const BODY_BYTES: usize = 200;

/// The unit of CPU times in /proc.
const TICKS_A_SECOND: f64 = 100.0;

/// The arguments, which are the same for all peers.
#[derive(Parser, Clone)]
pub struct Options {
    #[arg(long)]
    pub case: String,
    #[arg(long)]
    pub messages: usize,
    #[arg(long)]
    pub keys: usize,
    #[arg(long)]
    pub work_min_us: u32,
    #[arg(long)]
    pub work_max_us: u32,
    /// Messages a second; 0: as fast as they are accepted.
    #[arg(long)]
    pub rate: u32,
    #[arg(long)]
    pub seed: u32,
    #[arg(long)]
    pub order: Order,
    #[arg(long)]
    pub concurrency: usize,
    /// Where the broker listens.
    #[arg(long)]
    pub address: String,
    /// The process of the broker; 0: there is none.
    #[arg(long)]
    pub store_pid: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    Strict,
    None,
}

impl Options {
    /// The time that a message takes. The programs in Node and Java draw the same.
    pub fn work_of(&self, index: usize) -> Duration {
        let mut hash = self.seed ^ (index as u32 + 1).wrapping_mul(0x9e37_79b1);
        hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
        hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
        hash ^= hash >> 16;
        let range = self.work_max_us - self.work_min_us + 1;
        Duration::from_micros(u64::from(self.work_min_us + hash % range))
    }

    /// When a message is due, counted from the first.
    pub fn due(&self, index: usize) -> Duration {
        Duration::from_secs_f64(index as f64 / f64::from(self.rate))
    }
}

/// What is done, in which order and after how long.
pub struct Tally {
    highest: Vec<Option<usize>>,
    latencies: Vec<Duration>,
    out_of_order: usize,
}

impl Tally {
    pub fn new(options: &Options) -> Self {
        Self {
            highest: vec![None; options.keys],
            latencies: Vec::with_capacity(options.messages),
            out_of_order: 0,
        }
    }

    pub fn done(&mut self, index: usize, latency: Duration) {
        let key = index % self.highest.len();
        if self.highest[key].is_some_and(|highest| index < highest) {
            self.out_of_order += 1;
        } else {
            self.highest[key] = Some(index);
        }
        self.latencies.push(latency);
    }

    pub fn count(&self) -> usize {
        self.latencies.len()
    }

    fn quantile_us(&self, quantile: f64) -> u128 {
        let at = (quantile * self.latencies.len() as f64).ceil() as usize;
        self.latencies.get(at.saturating_sub(1)).map_or(0, Duration::as_micros)
    }
}

/// The measured part of a run: from its making to `print`.
pub struct Measure {
    start: Instant,
    store: f64,
    client: f64,
}

impl Measure {
    pub fn start(options: &Options) -> Self {
        Self {
            start: Instant::now(),
            store: cpu_us(options.store_pid),
            client: cpu_us(process::id()),
        }
    }

    pub fn print(self, peer: &str, options: &Options, mut tally: Tally) {
        let seconds = self.start.elapsed().as_secs_f64();
        let count = tally.count() as f64;
        let each = |total: f64| (total / count * 10.0).round() / 10.0;
        let store = each(cpu_us(options.store_pid) - self.store);
        tally.latencies.sort_unstable();
        let result = json!({
            "peer": peer,
            "case": options.case,
            "messages": tally.count(),
            "messages_per_s": (count / seconds).round(),
            "in_order": tally.out_of_order == 0,
            "out_of_order": tally.out_of_order,
            "latency_us": { "p50": tally.quantile_us(0.5), "p99": tally.quantile_us(0.99) },
            "cpu_us_per_message": {
                "store": (options.store_pid != 0).then_some(store),
                "client": each(cpu_us(process::id()) - self.client),
            },
        });
        println!("{result}");
    }
}

/// The CPU that a process has used, in µs; 0 for none.
fn cpu_us(pid: u32) -> f64 {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return 0.0 };
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |field: usize| -> f64 {
        after_name.split_whitespace().nth(field).and_then(|text| text.parse().ok()).unwrap_or(0.0)
    };
    (ticks(11) + ticks(12)) / TICKS_A_SECOND * 1e6
}
