//! `reseq-bench pairs`: measures the CPU time per message that arguments such as `--tls` cost.
//!
//! The speed of the machine varies. So runs without and with the arguments alternate, each with new processes. The
//! result is the medians of the ratios and of the differences.

use std::{collections::BTreeMap, fmt, io::Write};

use anyhow::{Context, ensure};
use clap::{Args, value_parser};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::{
    program,
    progress::Progress,
    report::{median, rounded},
};

/// The roles whose processes are pods.
const PODS: [&str; 3] = ["ingest", "processor", "sender"];
/// The compared parts: each role, all pods together, Redis, and pods and Redis together.
const PARTS: [&str; 6] = ["ingest", "processor", "sender", "all pods", "redis", "pods and redis"];

/// The arguments of `reseq-bench pairs`.
#[derive(Debug, Clone, Args)]
pub struct PairsArgs {
    /// Arguments that one run of each pair has in addition, such as "--tls". If the option is repeated, each value is
    /// compared with the run without it.
    #[arg(long, required = true, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    with: Vec<String>,
    /// The number of pairs.
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u64).range(1..=1_000))]
    count: u64,
    /// Print the report as one line of JSON, and nothing else.
    #[arg(long)]
    json: bool,
    /// The arguments that all runs have.
    #[arg(last = true, value_name = "ARGUMENTS")]
    common: Vec<String>,
}

/// The part of a run's report that this command reads.
#[derive(Deserialize)]
struct Run {
    cpu_us_per_message: BTreeMap<String, f64>,
}

/// All comparisons.
#[derive(Debug, Serialize)]
struct Pairs {
    common: String,
    count: u64,
    comparisons: Vec<Comparison>,
}

/// The cost of these arguments.
#[derive(Debug, Serialize)]
struct Comparison {
    with: String,
    costs: Vec<Cost>,
}

/// CPU time of one part, in µs per message.
#[derive(Debug, PartialEq, Serialize)]
struct Cost {
    part: &'static str,
    /// The medians of all runs.
    without: f64,
    with: f64,
    /// The medians of all pairs.
    difference: f64,
    ratio: f64,
}

/// Runs the pairs and prints the report.
pub async fn run(args: PairsArgs) -> anyhow::Result<()> {
    let words = |text: &String| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut variants = vec![Vec::new()];
    variants.extend(args.with.iter().map(words));
    let mut runs: Vec<Vec<[f64; PARTS.len()]>> = vec![Vec::new(); variants.len()];
    let mut progress = Progress::new();
    for number in 0..args.count {
        let mut order: Vec<usize> = (0..variants.len()).collect();
        // Alternate the order, so that a machine that becomes slower favours neither run.
        if number % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let shown = variants[index].join(" ");
            progress.note(&format!("{} of {}: {shown}", number + 1, args.count));
            runs[index].push(one(&args.common, &variants[index]).await?);
        }
    }
    progress.finish();
    let comparison = |(with, runs_with): (&String, &Vec<_>)| Comparison {
        with: with.clone(),
        costs: costs(&runs[0], runs_with),
    };
    let comparisons = args.with.iter().zip(&runs[1..]).map(comparison).collect();
    let report = Pairs { common: args.common.join(" "), count: args.count, comparisons };
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string(&report)?)?,
        false => write!(out, "{report}")?,
    }
    Ok(out.flush()?)
}

/// Does one run, in a separate process. Returns the CPU time of the parts.
async fn one(common: &[String], more: &[String]) -> anyhow::Result<[f64; PARTS.len()]> {
    let mut command = Command::new(program::this()?);
    command.arg("--json").args(common).args(more).kill_on_drop(true);
    let output = command.output().await.context("running reseq-bench")?;
    let arguments = [common, more].concat().join(" ");
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "reseq-bench {arguments} failed: {errors}");
    let run: Run = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("reseq-bench {arguments} measures no cost of messages"))?;
    Ok(parts(&run))
}

fn parts(run: &Run) -> [f64; PARTS.len()] {
    let of = |role: &str| run.cpu_us_per_message.get(role).copied().unwrap_or_default();
    let (pods, redis) = (PODS.map(of), of("redis"));
    let all: f64 = pods.iter().sum();
    [pods[0], pods[1], pods[2], all, redis, all + redis]
}

fn costs(without: &[[f64; PARTS.len()]], with: &[[f64; PARTS.len()]]) -> Vec<Cost> {
    let cost = |(index, part): (usize, &&'static str)| {
        let pairs = || without.iter().zip(with).map(move |(a, b)| (a[index], b[index]));
        let ratio = median(pairs().filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a));
        Cost {
            part,
            without: rounded(median(pairs().map(|(a, _)| a)), 1),
            with: rounded(median(pairs().map(|(_, b)| b)), 1),
            difference: rounded(median(pairs().map(|(a, b)| b - a)), 1),
            // A part without a process costs nothing.
            ratio: if ratio.is_finite() { rounded(ratio, 3) } else { 1.0 },
        }
    };
    PARTS.iter().enumerate().map(cost).collect()
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pairs { common, count, .. } = self;
        writeln!(
            f,
            "CPU, µs a message: medians of {count} alternating pair(s) of reseq-bench {common}"
        )?;
        for Comparison { with, costs } in &self.comparisons {
            writeln!(f, "\n| with {with} | without | with | difference | ratio |")?;
            writeln!(f, "| --- | ---: | ---: | ---: | ---: |")?;
            for Cost { part, without, with, difference, ratio } in costs {
                writeln!(
                    f,
                    "| {part} | {without:.1} | {with:.1} | {difference:+.1} | {ratio:.3} |"
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_medians_of_the_pairs_count() {
        let run = |ingest: f64, redis: f64| {
            let of = [("ingest", ingest), ("redis", redis), ("bench", 99.0)];
            let cpu_us_per_message = of.map(|(role, us)| (role.to_owned(), us)).into();
            parts(&Run { cpu_us_per_message })
        };
        let without = [run(10.0, 20.0), run(20.0, 40.0), run(10.0, 20.0)];
        let with = [run(12.0, 20.0), run(22.0, 40.0), run(50.0, 20.0)];
        let costs = costs(&without, &with);
        let cost = |part, without, with, difference, ratio| Cost {
            part,
            without,
            with,
            difference,
            ratio,
        };
        assert_eq!(costs[0], cost("ingest", 10.0, 22.0, 2.0, 1.2));
        assert_eq!(costs[1], cost("processor", 0.0, 0.0, 0.0, 1.0));
        assert_eq!(costs[4], cost("redis", 20.0, 20.0, 0.0, 1.0));
        assert_eq!(costs[5], cost("pods and redis", 30.0, 62.0, 2.0, 1.067));
    }
}
