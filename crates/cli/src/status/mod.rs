//! `reseq status`: shows the numbers of destinations as a table.

use client::Service;
mod blocks;
mod drained;
mod stats;
mod table;

use std::cmp::Reverse;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{
    client_args::ClientArgs,
    exit::Exit,
    output::{Output, plain, write_out},
    watch::WatchArgs,
};
use stats::{Seen, Stats, read};

/// The prefix of the lines of `/readyz` that report damage.
const DAMAGED: &str = "damaged: ";

/// The arguments of `reseq status`.
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Only these destinations
    #[arg(value_name = "DESTINATION")]
    destinations: Vec<String>,
    /// The order of the destinations: by name, the longest backlogs first, or those that need attention first
    #[arg(long, default_value_t, value_enum)]
    sort: Sort,
    /// Wait until no message is pending, and show the progress on standard error
    #[arg(long, conflicts_with_all = ["watch", "check"])]
    until_drained: bool,
    #[command(flatten)]
    watch: WatchArgs,
    /// Show only destinations that need attention; if there are any, exit with code 5
    #[arg(long, conflicts_with = "watch")]
    check: bool,
}

/// The order of the destinations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Sort {
    #[default]
    Name,
    Pending,
    Stuck,
}

/// The answers of the service at one moment.
struct Status {
    destinations: Vec<Seen>,
    /// With `--check`: damage that the process has found.
    damaged: Vec<String>,
}

/// Prints the table, once or until Ctrl-C.
pub async fn run(args: StatusArgs) -> anyhow::Result<Exit> {
    let service = args.client.service()?;
    let (output, check) = (args.client.output, args.check);
    if args.watch.watch {
        let shown = async || Status::read(&service, &args, false).await?.shown(output, false);
        args.watch.print(output, shown).await?;
        return Ok(Exit::Ok);
    }
    if args.until_drained {
        drained::wait(&service, &args.destinations).await?;
    }
    let status = match check {
        true => Status::unhealthy(&service, &args).await,
        false => Status::read(&service, &args, false).await,
    };
    args.client.print_problem(&status)?;
    let status = status?;
    write_out(&status.shown(output, check)?)?;
    Ok(match check && !status.is_empty() {
        true => Exit::Unhealthy,
        false => Exit::Ok,
    })
}

impl Status {
    async fn read(service: &Service, args: &StatusArgs, check: bool) -> anyhow::Result<Status> {
        let mut destinations = read(service, &args.destinations, check).await?;
        // Destinations that cannot be read need attention too, because their state is unknown. The sort is stable.
        destinations.sort_by_key(|Seen { stats, .. }| {
            Reverse(match args.sort {
                Sort::Name => (false, 0),
                Sort::Pending => (false, stats.pending),
                Sort::Stuck => (stats.needs_attention(), stats.pending),
            })
        });
        Ok(Status { destinations, damaged: Vec::new() })
    }

    /// Reads only destinations that need attention, and the damage that the process has found.
    async fn unhealthy(service: &Service, args: &StatusArgs) -> anyhow::Result<Status> {
        // A proxy may hide this path. Then only the numbers count.
        let damaged = match service.find_text("/readyz").await {
            Ok(ready) => {
                let ready = ready.unwrap_or_default();
                let damaged = ready.lines().filter_map(|line| line.strip_prefix(DAMAGED));
                damaged.map(str::to_owned).collect()
            }
            // The numbers may still be readable, for example if one of several servers is down.
            Err(error) => vec![format!("unknown, because {error:#}")],
        };
        Ok(Status { damaged, ..Status::read(service, args, true).await? })
    }

    fn is_empty(&self) -> bool {
        self.destinations.is_empty() && self.damaged.is_empty()
    }

    fn shown(&self, output: Output, check: bool) -> anyhow::Result<String> {
        if output != Output::Table {
            return output.render(&self.json(check).to_string());
        }
        if self.is_empty() {
            let nothing = "no destination needs attention, and no data is damaged";
            return Ok(if check { nothing } else { "there are no destinations" }.to_owned());
        }
        let all_blocks = self.destinations.iter();
        let all_blocks = all_blocks.map(|seen| blocks::blocks(&seen.name, &seen.stats));
        let mut text = table::shown(&self.destinations, &all_blocks.collect::<Vec<_>>());
        text.extend(self.damaged.iter().map(|damaged| format!("! damaged: {}\n", plain(damaged))));
        Ok(text)
    }

    fn json(&self, check: bool) -> Value {
        let items = self.destinations.iter();
        let items = items.map(|seen| json!({"destination": seen.name, "stats": seen.json}));
        let mut object = json!({"items": items.collect::<Vec<_>>()});
        if check {
            object["damaged"] = json!(self.damaged);
        }
        object
    }
}
