//! `reseq send`: sends arguments, or lines of a file or standard input, as messages, in order.
//!
//! Batches are sent one after the other. After a temporary refusal, the command sends again all messages from the first
//! refused one on, so that no message overtakes it. Every message has an idempotency key, so that messages behind it
//! that were accepted are not stored twice.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Args;
use reqwest::StatusCode;
use serde_json::json;
use tokio::time::sleep;

use super::{
    client_args::ClientArgs,
    durations::duration,
    output::{Output, counted, write_out},
};
use client::{
    Problem, Refused, Service,
    batch::{Deliveries, Failure, Posted, first_refused},
};
use meter::Meter;
use source::{Item, Source};

mod meter;
mod source;
#[cfg(test)]
mod tests;

/// The most messages of one batch.
const BATCH_MAX: usize = 200;
/// A batch of at least this many bytes takes no further message.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// The pause before a retry, unless the service names one.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The longest pause, even if the service asks for more.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// The arguments of `reseq send`.
#[derive(Debug, Clone, Args)]
pub struct SendArgs {
    #[command(flatten)]
    pub client: ClientArgs,
    /// Destination. With --ndjson, only for lines that name no destination or topic
    #[arg(short, long, required_unless_present_any = ["ndjson", "topic"])]
    pub destination: Option<String>,
    /// Topic, in place of a destination. With --ndjson, only for lines that name no destination or topic
    #[arg(short, long, conflicts_with = "destination")]
    pub topic: Option<String>,
    /// Ordering key of all messages without their own
    #[arg(long)]
    pub key: Option<String>,
    /// Process the messages only after this time has passed, such as 500ms, 15s or 2h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub delay: Option<Duration>,
    /// Process the messages only after this time, for example 2026-11-21T10:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    pub due_at: Option<String>,
    /// Priority, 0 to 9; 9 is processed first. Only with ordering "none"
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=9))]
    pub priority: Option<u8>,
    /// Content type of all messages. Without it, a message that is valid JSON is sent as application/json, and any
    /// other as text/plain
    #[arg(long, value_name = "TYPE", conflicts_with = "ndjson")]
    pub content_type: Option<String>,
    /// Idempotency key of the message. With several messages, each message gets "<key>/<line>"
    #[arg(long)]
    pub idempotency_key: Option<String>,
    /// Each line is a message object as for POST /v1/messages, not a body
    #[arg(long)]
    pub ndjson: bool,
    /// Send each line of this file; "-" is standard input
    #[arg(long, conflicts_with = "messages")]
    pub file: Option<PathBuf>,
    /// Stop with an error if the service accepts nothing for this long
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub retry: Duration,
    /// Messages to send. "-" or none: each line of standard input
    #[arg(value_name = "MESSAGE")]
    pub messages: Vec<String>,
}

/// The messages that the service has accepted for one destination.
struct Tally {
    count: u64,
    first: u64,
    last: u64,
}

/// Sends all messages. The error names the line that stopped the command.
pub async fn run(args: SendArgs) -> anyhow::Result<()> {
    let service = args.client.service()?;
    let mut source = Source::open(&args).await?;
    let meter = Meter::new(source.bytes_total());
    let mut sending = Sending { service, retry_max: args.retry, meter, tallies: BTreeMap::new() };
    let outcome = sending.send_all(&mut source).await;
    sending.meter.finish();
    let written = sending.summary(args.client.output).and_then(|summary| write_out(&summary));
    outcome.and(written)
}

struct Sending {
    service: Service,
    retry_max: Duration,
    meter: Meter,
    tallies: BTreeMap<String, Tally>,
}

/// The result of one attempt to send a batch.
struct Tried {
    /// The number of accepted messages at the front of the batch.
    accepted: usize,
    /// Why the next message was not accepted, if any message is left.
    failure: Option<Failure>,
    /// The wait that the service asked for.
    wait: Option<Duration>,
}

/// True if a retry may succeed. A retry is safe, because each message has a key.
fn is_temporary(failure: &Failure) -> bool {
    match failure {
        Failure::Refused(refused) => refused.problem.is_temporary(),
        Failure::Unanswered(_) => true,
    }
}

fn into_error(failure: Failure) -> anyhow::Error {
    match failure {
        Failure::Refused(refused) => refused.into(),
        Failure::Unanswered(unreachable) => unreachable.into(),
    }
}

impl Sending {
    async fn send_all(&mut self, source: &mut Source) -> anyhow::Result<()> {
        loop {
            // If a line cannot be read, still send the lines before it.
            let (batch, problem) = match source.batch(BATCH_MAX, BATCH_BYTES_MAX).await {
                (batch, None) if batch.is_empty() => return Ok(()),
                read => read,
            };
            self.send_batch(&batch).await?;
            if let Some(problem) = problem {
                return Err(problem);
            }
        }
    }

    /// Sends a batch until all of it is accepted.
    async fn send_batch(&mut self, mut batch: &[Item]) -> anyhow::Result<()> {
        let mut since = Instant::now();
        while let Some(first) = batch.first() {
            let tried = self.try_batch(batch).await;
            let tried = tried.with_context(|| format!("line {}", first.line))?;
            self.meter.accepted(&batch[..tried.accepted]);
            batch = &batch[tried.accepted..];
            let (Some(failure), Some(first)) = (tried.failure, batch.first()) else { continue };
            let line = || format!("line {}", first.line);
            if !is_temporary(&failure) {
                return Err(into_error(failure).context(line()));
            }
            if tried.accepted > 0 {
                since = Instant::now();
            }
            if since.elapsed() > self.retry_max {
                let text = format!("{}: not accepted for {:?}", line(), self.retry_max);
                return Err(into_error(failure).context(text));
            }
            let wait = tried.wait.unwrap_or(RETRY_AFTER).min(RETRY_AFTER_MAX);
            self.meter.waiting(&failure, wait);
            sleep(wait).await;
        }
        Ok(())
    }

    async fn try_batch(&mut self, batch: &[Item]) -> anyhow::Result<Tried> {
        let mut body = Vec::with_capacity(batch.iter().map(|item| item.json.len() + 1).sum());
        for item in batch {
            body.extend_from_slice(&item.json);
            body.push(b'\n');
        }
        let Posted { results, wait } = self.service.post_batch(body, batch.len()).await?;
        let results = match results {
            Ok(results) => results,
            Err(failure) => {
                let failure = Some(self.explained(failure));
                return Ok(Tried { accepted: 0, failure, wait });
            }
        };
        let accepted = first_refused(&results).unwrap_or(results.len());
        let mut results = results.into_iter();
        for deliveries in results.by_ref().take(accepted).flatten() {
            self.count(deliveries);
        }
        let of_line =
            |problem: Problem| Failure::Refused(Refused { problem, object: String::new() });
        let failure = results.next().and_then(Result::err).map(of_line);
        Ok(Tried { accepted, failure, wait })
    }

    /// Explains why the whole batch was not accepted.
    fn explained(&self, mut failure: Failure) -> Failure {
        if let Failure::Refused(Refused { problem, .. }) = &mut failure
            && problem.status == StatusCode::NOT_FOUND
            && problem.code == "not_found"
        {
            problem.detail = format!(
                "{} accepts no messages: the pod has no role ingest. Give --url the URL of a pod with this role, or \
                 start this one with --roles ingest",
                self.service.url()
            );
        }
        failure
    }

    fn count(&mut self, accepted: Deliveries) {
        for delivery in accepted.deliveries {
            let new = Tally { count: 0, first: delivery.sequence, last: delivery.sequence };
            let tally = self.tallies.entry(delivery.destination).or_insert(new);
            tally.count += 1;
            tally.first = tally.first.min(delivery.sequence);
            tally.last = tally.last.max(delivery.sequence);
        }
    }

    /// The number of messages that each destination got.
    fn summary(&self, output: Output) -> anyhow::Result<String> {
        if output != Output::Table {
            let items = self.tallies.iter().map(|(destination, tally)| {
                let Tally { count, first, last } = tally;
                json!({"destination": destination, "messages": count, "first_sequence": first,
                    "last_sequence": last})
            });
            return output.render(&json!({"items": items.collect::<Vec<_>>()}).to_string());
        }
        let lines = self.tallies.iter().map(|(destination, Tally { count, first, last })| {
            let messages = counted(*count, "message");
            format!("sent {messages} to {destination}: sequences {first} to {last}")
        });
        Ok(match lines.collect::<Vec<_>>() {
            none if none.is_empty() => "sent 0 messages".to_owned(),
            lines => lines.join("\n"),
        })
    }
}
