//! Measures the resources that Redis and the pods use while nothing is sent.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use serde::Serialize;
use tokio::time::sleep;
use tools::harness::Harness;

use super::{
    args::BenchArgs,
    plan::Plan,
    progress::Progress,
    receive::{Receivers, Tally},
    report::rounded,
    setup,
    surroundings::Surroundings,
    usage::{ROLES, Usage},
};

/// Pods of each role without --pods.
const PODS: u64 = 3;
/// Seconds without --seconds.
const SECONDS: u64 = 20;
/// How long to measure Redis before the pods start.
const ALONE: Duration = Duration::from_secs(3);
/// The wait before the measurement, after all partitions are owned, so that the work of the start is done.
const SETTLE: Duration = Duration::from_secs(5);
/// The most CPU that Redis may use, in percent of a core.
const REDIS_PERCENT_MAX: f64 = 1.0;

/// The measured use.
#[derive(Debug, Serialize)]
pub struct Idle {
    pub partitions: u16,
    /// Pods of each role.
    pub pods: u64,
    pub destinations: u64,
    /// True if all partitions were owned, and every sender owned some.
    pub all_owned: bool,
    pub seconds: f64,
    /// CPU of the whole process of Redis, in percent of a core.
    pub redis_percent: f64,
    /// The limit of `redis_percent`.
    pub redis_percent_max: f64,
    /// CPU of the main thread of Redis, which runs all commands.
    pub redis_main_percent: f64,
    /// CPU of the children of Redis, which rewrite the append-only file.
    pub redis_children_percent: f64,
    /// CPU of the whole process of Redis before the pods started.
    pub redis_alone_percent: f64,
    /// CPU of all pods of each role together, in percent of a core.
    pub cpu_percent: BTreeMap<&'static str, f64>,
    /// Calls of scripts, per second.
    pub scripts_per_s: f64,
    /// Commands per second, including commands inside scripts.
    pub commands_per_s: f64,
    /// The commands that took the most time. The time of a script includes its commands.
    pub redis_commands: Vec<Command>,
    /// Problems, in words.
    pub problems: Vec<String>,
}

/// One command of Redis.
#[derive(Debug, Serialize, PartialEq)]
pub struct Command {
    pub name: String,
    pub calls_per_s: f64,
    pub us_per_s: f64,
    pub us_per_call: f64,
}

/// Starts all pods, sends nothing, and measures.
pub async fn measure(
    args: &BenchArgs,
    harness: &mut Harness,
    surroundings: &Surroundings,
    progress: &mut Progress,
) -> anyhow::Result<Idle> {
    let pods = args.pods.unwrap_or(PODS);
    let args = BenchArgs { ingest: pods, processors: Some(pods), senders: pods, ..args.clone() };
    progress.note("measuring Redis by itself");
    let (alone, alone_took) = used_within(harness, ALONE).await?;
    progress.note("starting the processes");
    // The receiver gets no deliveries, but each destination needs one.
    let tally = Tally::new(Plan::of(&args));
    let receivers =
        Receivers::start(args.way_out, args.framing.into(), tally.into(), surroundings).await?;
    let config = setup::config(&args, surroundings, &receivers)?;
    setup::start_ingest(harness, &args, &config, surroundings).await?;
    setup::start_rest(harness, &args, &config).await?;
    let all_owned = setup::wait_until_shared(harness, &config).await;
    sleep(SETTLE).await;
    progress.note("measuring");
    let time = Duration::from_secs(args.seconds.unwrap_or(SECONDS));
    let (used, took) = used_within(harness, time).await?;
    let mut idle = Idle::of(&used, took);
    idle.partitions = config.redis.partitions;
    (idle.pods, idle.destinations, idle.all_owned) = (pods, args.destinations, all_owned);
    idle.redis_alone_percent = percent(alone.redis.cpu, alone_took);
    if !all_owned {
        idle.problems.push("the senders do not share all partitions".to_owned());
    }
    Ok(idle)
}

/// Measures the use for this long. Returns the use and the time that really passed.
async fn used_within(harness: &Harness, time: Duration) -> anyhow::Result<(Usage, Duration)> {
    let (since, before) = (Instant::now(), Usage::now(harness).await?);
    sleep(time.saturating_sub(since.elapsed())).await;
    let took = since.elapsed();
    Ok((Usage::now(harness).await?.since(&before), took))
}

fn percent(cpu: Duration, of: Duration) -> f64 {
    rounded(cpu.as_secs_f64() / of.as_secs_f64().max(1e-9) * 100.0, 3)
}

impl Idle {
    /// Fills in the use of this time. The caller sets the other fields.
    fn of(used: &Usage, took: Duration) -> Idle {
        let seconds = took.as_secs_f64().max(1e-9);
        let redis = &used.redis;
        let roles = ROLES.into_iter().zip(used.roles).filter(|(role, _)| *role != "bench");
        let (scripts, commands) = redis.calls();
        Idle {
            partitions: 0,
            pods: 0,
            destinations: 0,
            all_owned: false,
            seconds: rounded(seconds, 3),
            redis_percent: percent(redis.cpu, took),
            redis_percent_max: REDIS_PERCENT_MAX,
            redis_main_percent: percent(redis.cpu_main, took),
            redis_children_percent: percent(redis.cpu_children, took),
            redis_alone_percent: 0.0,
            cpu_percent: roles.map(|(role, cpu)| (role, percent(cpu, took))).collect(),
            scripts_per_s: rounded(scripts as f64 / seconds, 2),
            commands_per_s: rounded(commands as f64 / seconds, 2),
            redis_commands: commands_of(used, seconds),
            problems: Vec::new(),
        }
    }
}

fn commands_of(used: &Usage, seconds: f64) -> Vec<Command> {
    let command = |(name, calls, took): (&str, u64, u64)| Command {
        name: name.to_owned(),
        calls_per_s: rounded(calls as f64 / seconds, 2),
        us_per_s: rounded(took as f64 / seconds, 1),
        us_per_call: rounded(took as f64 / calls.max(1) as f64, 2),
    };
    used.redis.costliest().map(command).collect()
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Idle { partitions, pods, destinations, seconds, .. } = self;
        writeln!(
            f,
            "{partitions} partitions, {pods} pod(s) of each role, {destinations} destination(s); \
             nothing was sent for {seconds:.1} s.\n"
        )?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, percent: f64| {
            writeln!(f, "{name:<28} {percent:>8.2}")
        };
        writeln!(f, "{:<28} {:>8}", "CPU", "% of a core")?;
        line(f, "redis", self.redis_percent)?;
        line(f, "  its main thread", self.redis_main_percent)?;
        line(f, "  beside it, its children", self.redis_children_percent)?;
        line(f, "  without any pod", self.redis_alone_percent)?;
        self.cpu_percent.iter().try_for_each(|(role, percent)| line(f, role, *percent))?;
        let (scripts, commands) = (self.scripts_per_s, self.commands_per_s);
        writeln!(f, "Redis: {scripts:.1} script calls and {commands:.1} commands a second.")?;
        let heads = ["a second", "µs a second", "µs a call"];
        write!(f, "{:<28}", "command")?;
        heads.iter().try_for_each(|head| write!(f, " {head:>12}"))?;
        writeln!(f)?;
        for Command { name, calls_per_s, us_per_s, us_per_call } in &self.redis_commands {
            writeln!(f, "{name:<28} {calls_per_s:>12.2} {us_per_s:>12.1} {us_per_call:>12.2}")?;
        }
        self.problems.iter().try_for_each(|problem| writeln!(f, "Problem: {problem}"))?;
        let within = if self.redis_percent <= self.redis_percent_max { "yes" } else { "NO" };
        writeln!(f, "Redis within {} % of a core: {within}", self.redis_percent_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_is_told_by_the_second() {
        let mut used = Usage::default();
        used.redis.cpu = Duration::from_millis(200);
        used.roles[1] = Duration::from_millis(400);
        used.redis.commands =
            [("get".to_owned(), (20, 40)), ("evalsha".to_owned(), (10, 1000))].into();
        let idle = Idle::of(&used, Duration::from_secs(20));
        assert_eq!((idle.redis_percent, idle.cpu_percent["processor"]), (1.0, 2.0));
        assert_eq!((idle.scripts_per_s, idle.commands_per_s), (0.5, 1.0));
        let command = |name: &str, calls_per_s, us_per_s, us_per_call| Command {
            name: name.to_owned(),
            calls_per_s,
            us_per_s,
            us_per_call,
        };
        let expected = [command("evalsha", 0.5, 50.0, 100.0), command("get", 1.0, 2.0, 2.0)];
        assert_eq!(idle.redis_commands, expected);
        assert!(!idle.cpu_percent.contains_key("bench"));
    }
}
