//! The report: the numbers of one run.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;
use tools::quantiles::nearest_rank;

use super::{
    args::{BenchArgs, OrderingArg, TransformArg, Transport},
    counters::Counters,
    usage::{ROLES, Usage},
    verify::Verified,
};

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The arguments of the run.
    pub settings: Settings,
    /// The numbers of the main phase. Complete and in order only if the ramp was too.
    #[serde(flatten)]
    pub main: Figures,
    /// The cost of a waiting message, with `--preload`.
    pub preload: Option<Preload>,
    /// The latency at percentages of the throughput.
    pub ramp: Vec<Step>,
    /// Problems besides the messages, in words.
    pub problems: Vec<String>,
}

/// The settings of the run.
#[derive(Debug, Serialize)]
pub struct Settings {
    pub ordering: OrderingArg,
    pub destinations: u64,
    pub keys: u64,
    pub body_bytes: u64,
    pub transform: TransformArg,
    pub work_min_us: u64,
    pub work_max_us: u64,
    pub concurrency: u64,
    #[serde(rename = "in")]
    pub way_in: Transport,
    #[serde(rename = "out")]
    pub way_out: Transport,
    pub batch: u64,
    pub connections: u64,
    pub window: u64,
    pub pending: Option<u64>,
    pub out_window: u32,
    pub rate: Option<f64>,
    pub ingest: u64,
    pub processors: u64,
    pub senders: u64,
    pub log_max: u64,
    pub idempotency_keys: bool,
    pub tokens: bool,
    pub tls: bool,
    pub redis_tcp: bool,
    pub traces: Option<f64>,
    pub warm_up: u64,
    pub seed: u64,
    pub set: Vec<String>,
    /// The cores of the machine. The bench itself uses them too.
    pub cores: usize,
}

/// The numbers of one phase.
#[derive(Debug, Serialize)]
pub struct Figures {
    #[serde(flatten)]
    pub tallied: Counters,
    /// From the first sending to the last arrival.
    pub elapsed_s: f64,
    /// Messages delivered per second in `elapsed_s`.
    pub messages_per_s: f64,
    /// This rate if the system added no delay; not with `--preload`.
    pub ideal_messages_per_s: Option<f64>,
    /// Messages accepted per second, from the first to the last sending.
    pub accepted_per_s: f64,
    /// The time from sending to arrival.
    pub latency_us: Quantiles,
    /// How much later than ideal messages arrived.
    pub overhead_us: Quantiles,
    /// The longest delay of a message behind its schedule, if the run has a rate.
    pub sent_late_us_max: f64,
    /// CPU time of each role's processes. `redis` is the whole process of Redis.
    pub cpu_us_per_message: BTreeMap<&'static str, f64>,
    /// The number of cores that each role keeps busy. `redis_main` is the thread that runs all commands.
    pub cores_busy: BTreeMap<&'static str, f64>,
    /// CPU time of the main thread of Redis.
    pub redis_main_us_per_message: f64,
    /// CPU time of children of Redis, which rewrite the append-only file.
    pub redis_children_us_per_message: f64,
    /// Calls of scripts; and commands, inside and outside scripts.
    pub redis_calls_per_message: Calls,
    /// The commands that took the most time. The time of a script includes its commands.
    pub redis_commands: Vec<Command>,
    /// The part that is nearest to its limit, in words.
    pub limit: String,
}

/// Calls to Redis per message.
#[derive(Debug, Serialize)]
pub struct Calls {
    pub scripts: f64,
    pub commands: f64,
    /// Script calls by Reseq's processes, divided by the script calls that Redis ran. Missing if they were not counted
    /// (`--preload`).
    pub blocks_per_call: Option<f64>,
}

/// One command of Redis.
#[derive(Debug, Serialize)]
pub struct Command {
    pub name: String,
    pub calls: u64,
    pub calls_per_message: f64,
    pub us_per_message: f64,
}

/// The cost of waiting messages.
#[derive(Debug, Serialize)]
pub struct Preload {
    /// Messages that waited.
    pub waiting: u64,
    /// Messages accepted per second, while no message was delivered.
    pub accepted_per_s: f64,
    /// The growth of Redis's memory per message, without the message's body.
    pub memory_bytes_per_message: f64,
    /// From the start of the processors and senders to the first delivery.
    pub first_delivery_s: f64,
    /// CPU time of Redis per message, while the messages were stored.
    pub redis_us_per_message: f64,
}

/// One step of the ramp.
#[derive(Debug, Serialize)]
pub struct Step {
    pub percent: u64,
    pub rate: f64,
    #[serde(flatten)]
    pub figures: Figures,
}

/// Quantiles in microseconds, by nearest rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Quantiles {
    pub p50: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub max: f64,
}

impl Quantiles {
    /// The quantiles of these values; all zero without values.
    pub fn of(values_ns: &mut [u64]) -> Quantiles {
        values_ns.sort_unstable();
        let rank = |per_mille| {
            nearest_rank(values_ns, per_mille).map_or(0.0, |ns| rounded(ns as f64 / 1e3, 1))
        };
        Quantiles { p50: rank(500), p99: rank(990), p99_9: rank(999), max: rank(1000) }
    }
}

impl Report {
    /// True if every message arrived, in order.
    pub fn is_well(&self) -> bool {
        self.main.tallied.is_well()
    }
}

impl Settings {
    /// The settings of these arguments.
    pub fn of(args: &BenchArgs) -> Settings {
        Settings {
            ordering: args.ordering,
            destinations: args.destinations,
            keys: args.keys,
            body_bytes: args.body_bytes,
            transform: args.transform,
            work_min_us: args.work_min_us,
            work_max_us: args.work_max_us,
            concurrency: args.concurrency,
            way_in: args.way_in,
            way_out: args.way_out,
            batch: args.batch,
            connections: args.streams(),
            window: args.window,
            pending: args.pending,
            out_window: args.out_window,
            rate: args.rate,
            ingest: args.ingest,
            processors: args.processors(),
            senders: args.senders,
            log_max: args.log_max,
            idempotency_keys: args.idempotency_keys,
            tokens: args.tokens,
            tls: args.tls,
            redis_tcp: args.redis_tcp,
            traces: args.traces,
            warm_up: args.warm_up,
            seed: args.seed,
            set: args.set.clone(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
        }
    }
}

impl Figures {
    /// The numbers of a phase, from `begin` on.
    pub fn of(mut judged: Verified, used: &Usage, begin: Duration, late: Duration) -> Figures {
        let count = judged.delivered.max(1) as f64;
        let elapsed = judged.last_arrival.saturating_sub(begin).as_secs_f64().max(1e-9);
        let ideal = judged.ideal_last.checked_sub(begin).map(|ideal| ideal.as_secs_f64());
        let ideal = ideal.filter(|ideal| judged.first_sent >= begin && *ideal > 0.0);
        let sending = (judged.last_sent - judged.first_sent).as_secs_f64().max(1e-9);
        let redis = &used.redis;
        let per_message = |cpu: Duration| rounded(cpu.as_secs_f64() * 1e6 / count, 2);
        let busy = |cpu: Duration| rounded(cpu.as_secs_f64() / elapsed, 3);
        let of_roles = || ROLES.into_iter().zip(used.roles);
        let mut cpu: BTreeMap<_, _> =
            of_roles().map(|(role, cpu)| (role, per_message(cpu))).collect();
        cpu.insert("redis", per_message(redis.cpu));
        let mut cores: BTreeMap<_, _> = of_roles().map(|(role, cpu)| (role, busy(cpu))).collect();
        cores.insert("redis", busy(redis.cpu));
        cores.insert("redis_main", busy(redis.cpu_main));
        let (scripts, commands) = redis.calls();
        Figures {
            tallied: Counters::of(&judged),
            elapsed_s: rounded(elapsed, 3),
            messages_per_s: rounded(judged.delivered as f64 / elapsed, 1),
            ideal_messages_per_s: ideal.map(|ideal| rounded(judged.accepted as f64 / ideal, 1)),
            accepted_per_s: rounded(judged.accepted as f64 / sending, 1),
            latency_us: Quantiles::of(&mut judged.latency_ns),
            overhead_us: Quantiles::of(&mut judged.overhead_ns),
            sent_late_us_max: rounded(late.as_secs_f64() * 1e6, 1),
            limit: limit(&cores),
            cpu_us_per_message: cpu,
            cores_busy: cores,
            redis_main_us_per_message: per_message(redis.cpu_main),
            redis_children_us_per_message: per_message(redis.cpu_children),
            redis_calls_per_message: Calls {
                scripts: rounded(scripts as f64 / count, 4),
                commands: rounded(commands as f64 / count, 4),
                blocks_per_call: (used.blocks > 0)
                    .then(|| rounded(used.blocks as f64 / scripts.max(1) as f64, 2)),
            },
            redis_commands: commands_of(used, count),
        }
    }
}

fn commands_of(used: &Usage, count: f64) -> Vec<Command> {
    let command = |(name, calls, took): (&str, u64, u64)| Command {
        name: name.to_owned(),
        calls,
        calls_per_message: rounded(calls as f64 / count, 4),
        us_per_message: rounded(took as f64 / count, 3),
    };
    used.redis.costliest().map(command).collect()
}

/// The part whose use is nearest to a full core. All parts except the main thread of Redis may use several cores.
fn limit(cores: &BTreeMap<&'static str, f64>) -> String {
    let single = cores.iter().filter(|(name, _)| **name != "redis");
    let busiest = single.max_by(|a, b| a.1.total_cmp(b.1));
    let total: f64 =
        cores.iter().filter(|(name, _)| **name != "redis_main").map(|(_, busy)| busy).sum();
    let machine = std::thread::available_parallelism().map_or(0, usize::from);
    let of_machine = format!("all together {total:.2} of {machine} cores");
    match busiest {
        Some((name, busy)) => format!("nearest to a full core: {name} ({busy:.2}); {of_machine}"),
        None => of_machine,
    }
}

/// The median of these values; infinite without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::INFINITY,
        count if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Rounds to this many decimals. More decimals would be noise.
pub fn rounded(value: f64, decimals: i32) -> f64 {
    let by = 10f64.powi(decimals);
    (value * by).round() / by
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([]), f64::INFINITY);
    }

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let mut values: Vec<u64> = (1..=1000).rev().map(|us| us * 1000).collect();
        let expected = Quantiles { p50: 500.0, p99: 990.0, p99_9: 999.0, max: 1000.0 };
        assert_eq!(Quantiles::of(&mut values), expected);
        assert_eq!(Quantiles::of(&mut []), Quantiles::default());
    }
}
