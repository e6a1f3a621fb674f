//! `reseq pods`: the live processes, and the partitions that each process owns.

use clap::Args;
use serde_json::{Value, json};

use super::{
    client_args::ClientArgs,
    filters::Paging,
    output::{Output, list, text_of},
    watch::WatchArgs,
};
use client::{pages, paths::path_of};

const COLUMNS: [&str; 7] =
    ["pod", "host", "roles", "version", "partitions", "address", "expires_at"];

/// The arguments of `reseq pods`.
#[derive(Debug, Clone, Args)]
pub struct PodsArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Only the pod that delivers to this destination
    #[arg(long, value_name = "NAME", conflicts_with_all = ["limit", "cursor", "all"])]
    destination: Option<String>,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Lists the pods.
pub async fn run(args: PodsArgs) -> anyhow::Result<()> {
    let shown = async || match &args.destination {
        Some(destination) => owner(&args.client, destination).await,
        None => args.client.list_shown(("/v1/pods", &[]), &args.paging, &COLUMNS, row).await,
    };
    args.watch.print(args.client.output, shown).await
}

/// The pod that owns the partition of a destination.
async fn owner(client: &ClientArgs, destination: &str) -> anyhow::Result<String> {
    let definition = client.get(&path_of(destination, "")).await?;
    let partition = &definition["partition"];
    let pods = pages::read(&client.service()?, "/v1/pods", &[], usize::MAX, None).await?;
    let owns =
        |pod: &&Value| pod["partitions"].as_array().is_some_and(|all| all.contains(partition));
    let owners: Vec<&Value> = pods["items"].as_array().into_iter().flatten().filter(owns).collect();
    let answer = json!({"items": owners, "next_cursor": null, "partition": partition});
    Ok(match (client.output, owners.is_empty()) {
        (Output::Table, true) => format!("no pod owns partition {partition} of {destination} now"),
        (Output::Table, false) => list(&answer, &COLUMNS, row),
        (output, _) => output.render(&answer.to_string())?,
    })
}

/// The row of a pod.
pub fn row(pod: &Value) -> Vec<String> {
    let roles = pod["roles"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let numbers = pod["partitions"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    vec![
        text_of(pod, "pod"),
        text_of(pod, "host"),
        roles.collect::<Vec<_>>().join(","),
        text_of(pod, "version"),
        ranges(&numbers.collect::<Vec<_>>()),
        text_of(pod, "address"),
        text_of(pod, "expires_at"),
    ]
}

/// Ascending numbers as ranges: `0-3,7`; `-` if there are none.
fn ranges(numbers: &[u64]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let shown = runs.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    match shown.collect::<Vec<_>>().join(",") {
        none if none.is_empty() => "-".to_owned(),
        some => some,
    }
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn partitions_in_a_row_are_one_range() {
        assert_eq!(ranges(&[]), "-");
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }
}
