//! `reseq send`: sends arguments, or lines of a file or standard input, as messages, in order.
//!
//! Batches are sent one after the other. After a temporary refusal, everything from the first
//! refused message on is sent again, so that nothing overtakes it. Every message has an idempotency
//! key, so that those behind it that were accepted are not stored twice.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::Args;
use tokio::time::sleep;

use super::client::{Problem, Service, problem, retry_after};
use answer::{Deliveries, first_refused, parse_results};
use meter::Meter;
use source::{Item, Source};

mod answer;
mod meter;
mod source;
#[cfg(test)]
mod tests;

/// The most messages of one batch.
const BATCH_MAX: usize = 200;
/// A batch takes no further message beyond this length, in bytes.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// The pause before a retry, unless the service names one.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The longest pause, whatever the service asks for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// The arguments of `reseq send`.
#[derive(Debug, Clone, Args)]
pub struct SendArgs {
    /// URL of the service
    #[arg(long, env = "RESEQ_URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// Destination. With --ndjson, only for lines that name none
    #[arg(short, long, required_unless_present_any = ["ndjson", "topic"])]
    pub destination: Option<String>,
    /// Topic, in place of a destination. With --ndjson, only for lines that name none
    #[arg(short, long, conflicts_with = "destination")]
    pub topic: Option<String>,
    /// Ordering key of all messages that have none of their own
    #[arg(long)]
    pub key: Option<String>,
    /// Process the messages only after this time has passed: 500ms, 30s, 15m, 12h or 1d
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub delay: Option<u64>,
    /// Process the messages only after this time, for example 2026-11-21T10:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    pub not_before: Option<String>,
    /// Priority, 0 to 9; 9 is processed first. Only with ordering "none"
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=9))]
    pub priority: Option<u8>,
    /// Idempotency key of the message; with several messages, each gets "<key>/<line>"
    #[arg(long)]
    pub idempotency_key: Option<String>,
    /// Each line is an object as for POST /v1/messages, not a body
    #[arg(long)]
    pub ndjson: bool,
    /// Send each line of this file; "-" is standard input
    #[arg(long, conflicts_with = "messages")]
    pub file: Option<PathBuf>,
    /// Give up if nothing was accepted for this many seconds
    #[arg(long, default_value_t = 300)]
    pub retry_s: u64,
    /// Messages to send. "-" or none: each line of standard input
    #[arg(value_name = "MESSAGE")]
    pub messages: Vec<String>,
}

/// Parses a duration with a unit into milliseconds.
fn milliseconds(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let number = number.parse::<u64>().ok();
    let product = number.zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    product.ok_or_else(|| "write a number with a unit: ms, s, m, h or d".to_owned())
}

/// The messages that the service has accepted for one destination.
struct Tally {
    count: u64,
    first: u64,
    last: u64,
}

/// Sends everything, or reports the line that stopped it.
pub async fn run(args: SendArgs) -> anyhow::Result<()> {
    let service = Service::at(&args.url)?;
    let mut source = Source::open(&args).await?;
    let meter = Meter::new(source.bytes_total());
    let retry_max = Duration::from_secs(args.retry_s);
    let mut sending = Sending { service, retry_max, meter, tallies: BTreeMap::new() };
    let outcome = sending.send_all(&mut source).await;
    sending.meter.finish();
    sending.summarize();
    outcome
}

struct Sending {
    service: Service,
    retry_max: Duration,
    meter: Meter,
    tallies: BTreeMap<String, Tally>,
}

/// The result of one attempt to send a batch.
struct Tried {
    /// How many messages at its front were accepted.
    accepted: usize,
    /// Why the next one was refused, if any is left.
    refused: Option<Problem>,
    /// The wait that the service asked for.
    wait: Option<Duration>,
}

impl Sending {
    async fn send_all(&mut self, source: &mut Source) -> anyhow::Result<()> {
        loop {
            // Send the lines before an unreadable one all the same.
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
            let (Some(refused), Some(first)) = (tried.refused, batch.first()) else { continue };
            if !refused.is_temporary() {
                bail!("line {}: {refused}", first.line);
            }
            if tried.accepted > 0 {
                since = Instant::now();
            }
            if since.elapsed() > self.retry_max {
                let limit_s = self.retry_max.as_secs();
                bail!("line {}: not accepted for {limit_s} s: {refused}", first.line);
            }
            let wait = tried.wait.unwrap_or(RETRY_AFTER).min(RETRY_AFTER_MAX);
            self.meter.waiting(&refused, wait);
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
        let answer = match self.service.post("/v1/messages", "application/x-ndjson", body).await {
            Ok(answer) => answer,
            Err(error) => return Ok(unanswered(self.service.url(), error)),
        };
        let wait = retry_after(&answer);
        if !answer.status().is_success() {
            let refused = Some(problem(answer).await);
            return Ok(Tried { accepted: 0, refused, wait });
        }
        let text = match answer.text().await {
            Ok(text) => text,
            Err(error) => return Ok(unanswered(self.service.url(), error)),
        };
        let results = parse_results(&text, batch.len())?;
        let accepted = first_refused(&results).unwrap_or(results.len());
        let mut results = results.into_iter();
        for deliveries in results.by_ref().take(accepted).flatten() {
            self.count(deliveries);
        }
        let refused = results.next().and_then(Result::err);
        Ok(Tried { accepted, refused, wait })
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

    fn summarize(&self) {
        for (destination, Tally { count, first, last }) in &self.tallies {
            let messages = if *count == 1 { "message" } else { "messages" };
            println!("sent {count} {messages} to {destination}: sequences {first} to {last}");
        }
        if self.tallies.is_empty() {
            println!("sent 0 messages");
        }
    }
}

/// There was no complete answer. The messages may be stored; their keys make a retry safe.
fn unanswered(url: &str, error: reqwest::Error) -> Tried {
    let error = anyhow::Error::from(error.without_url());
    let detail = format!("{url} does not answer ({error:#})");
    let refused = Problem { status: 503, code: String::new(), detail };
    Tried { accepted: 0, refused: Some(refused), wait: None }
}
