//! The two producers: each sends one message per interval on a fixed schedule, in order, over one
//! connection.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use reqwest::{Client, StatusCode, header};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::{sleep, sleep_until, timeout},
};

use super::{ledger::Ledger, plan::Stream};

/// Time limit of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long to retry a message that is not accepted.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// The pause before a retry, unless the service names one.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The schedule: one message every `interval` from `start`, even if earlier messages are late.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// When the first message is due.
    pub start: Instant,
    /// The time between two messages.
    pub interval: Duration,
}

impl Schedule {
    /// When message `n` (from 1) is due.
    pub fn due(&self, n: usize) -> Instant {
        self.start + self.interval * u32::try_from(n - 1).unwrap_or(u32::MAX)
    }
}

/// Sends all messages of the HTTP stream. Waits for each answer before the next request, because
/// two requests at once could overtake each other.
pub async fn over_http(base: &str, ledger: &Ledger, schedule: Schedule) -> anyhow::Result<()> {
    let client = Client::builder()
        .no_proxy()
        .tcp_nodelay(true)
        .pool_max_idle_per_host(1)
        .timeout(ANSWER_MAX)
        .build()?;
    let url = format!("{base}/v1/destinations/{}/messages", Stream::Http.destination());
    for n in 1..=ledger.messages() {
        let due = schedule.due(n);
        sleep_until(due.into()).await;
        ledger.sending(Stream::Http, due);
        post(&client, &url, n).await.with_context(|| format!("sending message {n} over HTTP"))?;
    }
    Ok(())
}

/// Sends one message until it is accepted. The key makes retries safe.
async fn post(client: &Client, url: &str, n: usize) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let request = client.post(url).header("idempotency-key", format!("demo-{n}"));
        let request = request.header(header::CONTENT_TYPE, "application/json").body(body(n));
        let problem = match request.send().await {
            Ok(answer) => {
                let status = answer.status();
                // Read the whole body, so that the connection can be reused.
                let text = answer.text().await.unwrap_or_default();
                match status {
                    StatusCode::ACCEPTED => return Ok(()),
                    StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => text,
                    _ => bail!("answered {status}: {text}"),
                }
            }
            Err(error) => format!("{:#}", anyhow::Error::from(error)),
        };
        if begun.elapsed() > RETRY_MAX {
            bail!("not accepted for {} s: {problem}", RETRY_MAX.as_secs());
        }
        sleep(RETRY_AFTER).await;
    }
}

/// Sends all messages of the TCP stream. Reads the answers in parallel, so that no line waits for an answer.
pub async fn over_tcp(
    address: SocketAddr,
    ledger: &Ledger,
    schedule: Schedule,
) -> anyhow::Result<()> {
    let stream = TcpStream::connect(address).await.context("connecting over TCP")?;
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    let answers = BufReader::new(read).lines();
    tokio::try_join!(
        write_lines(write, ledger, schedule),
        read_answers(answers, ledger.messages(), schedule),
    )?;
    Ok(())
}

async fn write_lines(
    mut write: OwnedWriteHalf,
    ledger: &Ledger,
    schedule: Schedule,
) -> anyhow::Result<OwnedWriteHalf> {
    for n in 1..=ledger.messages() {
        let due = schedule.due(n);
        sleep_until(due.into()).await;
        ledger.sending(Stream::Tcp, due);
        let line = format!("{}\n", body(n));
        let written = write.write_all(line.as_bytes()).await;
        written.with_context(|| format!("sending message {n} over TCP"))?;
    }
    // Return the connection: dropping it would close its sending side before the last answers have arrived.
    Ok(write)
}

async fn read_answers(
    mut answers: Lines<BufReader<OwnedReadHalf>>,
    messages: usize,
    schedule: Schedule,
) -> anyhow::Result<()> {
    let mut last = 0;
    for n in 1..=messages {
        let until = schedule.due(n).saturating_duration_since(Instant::now()) + ANSWER_MAX;
        let answer = timeout(until, answers.next_line()).await;
        let answer = answer.with_context(|| format!("no answer to message {n} over TCP"))??;
        let answer = answer.context("the TCP connection was closed")?;
        let sequence = answer.strip_prefix("OK ").and_then(|number| number.trim().parse().ok());
        match sequence {
            Some(sequence) if sequence > last => last = sequence,
            _ => bail!("message {n} over TCP, after sequence {last}, was answered {answer:?}"),
        }
    }
    Ok(())
}

fn body(n: usize) -> String {
    format!("{{\"n\":{n}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_is_absolute() {
        let start = Instant::now();
        let schedule = Schedule { start, interval: Duration::from_millis(25) };
        assert_eq!(schedule.due(1), start);
        assert_eq!(schedule.due(2001), start + Duration::from_secs(50));
    }
}
