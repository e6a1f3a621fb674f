//! The resources that the processes and Redis have used so far, and the difference between two readings.

use std::{collections::BTreeMap, time::Duration};

use tools::harness::{Harness, metrics};

/// The roles whose processes are measured; `bench` is this process.
pub const ROLES: [&str; 4] = ["ingest", "processor", "sender", "bench"];

/// Linux shows CPU times in these ticks: USER_HZ is 100 on all machines that Reseq supports.
const TICKS_PER_S: f64 = 100.0;
/// The number of Redis commands in the report.
const COMMANDS: usize = 12;

/// One reading of the counters.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// CPU time of each role, over all its processes, in the order of [`ROLES`].
    pub roles: [Duration; 4],
    /// The statistics that Redis reports.
    pub redis: Redis,
    /// How many times the processes have called a script. One call to Redis may run several such calls as blocks. 0 if
    /// not read.
    pub blocks: u64,
}

/// The statistics of Redis.
#[derive(Debug, Clone, Default)]
pub struct Redis {
    /// CPU time of the whole process.
    pub cpu: Duration,
    /// CPU time of the main thread of Redis, which runs all commands.
    pub cpu_main: Duration,
    /// CPU time of the children of Redis, which rewrite the append-only file.
    pub cpu_children: Duration,
    /// Memory in use, in bytes.
    pub memory: u64,
    /// For each command: the number of calls, and their microseconds.
    pub commands: BTreeMap<String, (u64, u64)>,
}

impl Usage {
    /// Reads the current values.
    pub async fn now(harness: &Harness) -> anyhow::Result<Usage> {
        let redis = Redis::parse(&harness.redis_info().await?);
        let roles = ROLES.map(|role| match role {
            "bench" => cpu_of(std::process::id()),
            _ => harness.of_role(role).map(|process| cpu_of(process.id())).sum(),
        });
        Ok(Usage { roles, redis, blocks: 0 })
    }

    /// The use since an earlier reading.
    pub fn since(&self, before: &Usage) -> Usage {
        let mut roles = self.roles;
        roles.iter_mut().zip(before.roles).for_each(|(now, then)| *now = now.saturating_sub(then));
        let blocks = self.blocks.saturating_sub(before.blocks);
        Usage { roles, redis: self.redis.since(&before.redis), blocks }
    }
}

impl Redis {
    fn parse(info: &str) -> Redis {
        let pairs: BTreeMap<&str, &str> =
            info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
        let seconds = |name: &str| -> f64 {
            pairs.get(name).and_then(|text| text.parse().ok()).unwrap_or_default()
        };
        let both = |suffix: &str| {
            let sum = seconds(&format!("used_cpu_user{suffix}"))
                + seconds(&format!("used_cpu_sys{suffix}"));
            Duration::from_secs_f64(sum.max(0.0))
        };
        let command = |(name, values): (&&str, &&str)| {
            let number = |field: &str| -> Option<u64> {
                values.split(',').find_map(|pair| pair.strip_prefix(field))?.parse().ok()
            };
            let name = name.strip_prefix("cmdstat_")?.to_owned();
            Some((name, (number("calls=")?, number("usec=")?)))
        };
        Redis {
            cpu: both(""),
            cpu_main: both("_main_thread"),
            cpu_children: both("_children"),
            memory: seconds("used_memory") as u64,
            commands: pairs.iter().filter_map(command).collect(),
        }
    }

    fn since(&self, before: &Redis) -> Redis {
        let commands = self.commands.iter().map(|(name, (calls, took))| {
            let (calls_before, took_before) =
                before.commands.get(name).copied().unwrap_or_default();
            let since = (calls.saturating_sub(calls_before), took.saturating_sub(took_before));
            (name.clone(), since)
        });
        Redis {
            cpu: self.cpu.saturating_sub(before.cpu),
            cpu_main: self.cpu_main.saturating_sub(before.cpu_main),
            cpu_children: self.cpu_children.saturating_sub(before.cpu_children),
            memory: self.memory.saturating_sub(before.memory),
            commands: commands.filter(|(_, (calls, _))| *calls > 0).collect(),
        }
    }

    /// The commands that took the most time, the costliest first: name, calls, microseconds.
    pub fn costliest(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        let all = self.commands.iter().map(|(name, &(calls, took))| (name.as_str(), calls, took));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|&(_, _, took)| std::cmp::Reverse(took));
        all.into_iter().take(COMMANDS)
    }

    /// The calls of scripts; and the calls of all other commands, including commands inside scripts.
    pub fn calls(&self) -> (u64, u64) {
        let is_script = |name: &str| name.starts_with("eval") || name.starts_with("fcall");
        self.commands.iter().fold((0, 0), |(scripts, others), (name, (calls, _))| {
            if is_script(name) { (scripts + calls, others) } else { (scripts, others + calls) }
        })
    }
}

/// How many times all processes have called a script. Reading this costs them time, so not every reading includes it.
pub async fn blocks(harness: &Harness) -> u64 {
    let processes = ROLES.into_iter().flat_map(|role| harness.of_role(role));
    let mut sum = 0.0;
    for process in processes {
        sum += metrics::script_calls(harness.client(), &process.url).await.unwrap_or_default();
    }
    sum as u64
}

/// The CPU time that a process has used, over all its threads; zero if unknown.
fn cpu_of(id: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    ticks_in(&text)
        .map_or(Duration::ZERO, |ticks| Duration::from_secs_f64(ticks as f64 / TICKS_PER_S))
}

/// The sum of the fields 14 and 15 of `/proc/<id>/stat`. Field 2 is a name in parentheses that
/// may contain anything.
fn ticks_in(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ticks_are_found_behind_any_name() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 31 11 0 0 20 0";
        assert_eq!(ticks_in(stat), Some(42));
        assert_eq!(ticks_in(""), None);
    }

    #[test]
    fn what_redis_says_is_read_and_compared() {
        let before = Redis::parse("# CPU\r\nused_cpu_user:1.5\r\nused_cpu_sys:0.5\r\n");
        let now = "used_cpu_user:2.0\r\nused_cpu_sys:1.0\r\nused_cpu_user_main_thread:0.25\r\n\
                   used_memory:1000\r\n\
                   cmdstat_evalsha:calls=3,usec=90,usec_per_call=30.00\r\n\
                   cmdstat_zadd:calls=6,usec=12,usec_per_call=2.00\r\n";
        let since = Redis::parse(now).since(&before);
        assert_eq!(
            (since.cpu, since.cpu_main),
            (Duration::from_secs(1), Duration::from_millis(250))
        );
        assert_eq!((since.memory, since.calls()), (1000, (3, 6)));
        assert_eq!(since.commands["evalsha"], (3, 90));
    }
}
