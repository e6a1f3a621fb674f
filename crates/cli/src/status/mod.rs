//! `reseq status`: shows the numbers of all destinations as a table.

mod blocks;
mod stats;
mod table;

use std::{io::IsTerminal, time::Duration};

use clap::Args;
use serde_json::{Value, json};

use super::{
    client::Service,
    client_args::ClientArgs,
    exit::Exit,
    output::{Output, plain, write_out},
};
use stats::{Seen, Stats, read_all};

/// How often `--watch` updates.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How the readiness check of a process names damage that the process knows.
const DAMAGED: &str = "damaged: ";

/// The arguments of `reseq status`.
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Update every second until Ctrl-C
    #[arg(long, conflicts_with = "check")]
    watch: bool,
    /// Show only halted lanes and damaged data; if there are any, exit with code 5
    #[arg(long)]
    check: bool,
}

/// What the service says at one moment.
struct Status {
    destinations: Vec<Seen>,
    /// With `--check`: damage that the process knows.
    damaged: Vec<String>,
}

/// Prints the table, once or until Ctrl-C.
pub async fn run(args: StatusArgs) -> anyhow::Result<Exit> {
    let StatusArgs { client, watch: is_watch, check } = args;
    let service = client.service()?;
    if is_watch {
        watch(&service, client.output).await?;
        return Ok(Exit::Ok);
    }
    let status = match check {
        true => Status::unhealthy(&service).await,
        false => Status::read(&service).await,
    };
    client.print_problem(&status)?;
    let status = status?;
    write_out(&status.shown(&service, client.output, check).await?)?;
    Ok(match check && !status.is_empty() {
        true => Exit::Unhealthy,
        false => Exit::Ok,
    })
}

async fn watch(service: &Service, output: Output) -> anyhow::Result<()> {
    let clear = std::io::stdout().is_terminal() && output == Output::Table;
    let mut ticks = tokio::time::interval(WATCH_EVERY);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            signal = tokio::signal::ctrl_c() => return Ok(signal?),
        }
        let now = async { Status::read(service).await?.shown(service, output, false).await };
        let text = tokio::select! {
            text = now => text,
            signal = tokio::signal::ctrl_c() => return Ok(signal?),
        };
        if clear {
            // Move home and clear to the end, which does not flicker. Not a colour, so `write_out` would remove
            // it where colours are not wanted.
            print!("\x1b[H\x1b[J");
        }
        match (text, output) {
            (Ok(text), _) => write_out(&text)?,
            // Show a service that does not answer, and continue.
            (Err(error), Output::Table) => write_out(&format!("{error:#}"))?,
            (Err(error), Output::Json) => eprintln!("{error:#}"),
        }
    }
}

impl Status {
    async fn read(service: &Service) -> anyhow::Result<Status> {
        Ok(Status { destinations: read_all(service).await?, damaged: Vec::new() })
    }

    /// Only halted lanes and damaged data.
    async fn unhealthy(service: &Service) -> anyhow::Result<Status> {
        // A proxy may hide this path: then only the numbers tell.
        let ready = service.find_text("/readyz").await?.unwrap_or_default();
        let damaged = ready.lines().filter_map(|line| line.strip_prefix(DAMAGED));
        let damaged = damaged.map(str::to_owned).collect();
        let mut destinations = read_all(service).await?;
        destinations.retain(|seen| seen.stats.needs_repair());
        Ok(Status { destinations, damaged })
    }

    fn is_empty(&self) -> bool {
        self.destinations.is_empty() && self.damaged.is_empty()
    }

    async fn shown(
        &self,
        service: &Service,
        output: Output,
        check: bool,
    ) -> anyhow::Result<String> {
        if output == Output::Json {
            return Ok(self.json(check).to_string());
        }
        if self.is_empty() {
            let nothing = "no lane is halted, and no data is damaged";
            return Ok(if check { nothing } else { "there are no destinations" }.to_owned());
        }
        let mut all_blocks = Vec::new();
        for Seen { name, stats, .. } in &self.destinations {
            all_blocks.push(blocks::blocks(service, name, stats).await?);
        }
        let mut text = table::shown(&self.destinations, &all_blocks);
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
