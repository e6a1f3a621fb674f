//! A producer over HTTP: one request at a time on one connection, with one or many messages.

use anyhow::{Context, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, StatusCode,
    client::conn::http1::{self, SendRequest},
    header,
    http::request::Builder,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{ANSWER_MAX, Load, Pace, Relaxed, Sent};
use crate::{args::Transport, setup::destination_name};

/// The text before the sequence in an answer.
const SEQUENCE: &str = "\"sequence\":";

/// Sends the messages of one stream.
pub async fn send(load: &Load, stream: u64, mut pace: Pace) -> anyhow::Result<Sent> {
    let url = &load.listeners.http[stream as usize % load.listeners.http.len()];
    let host = url.trim_start_matches("http://");
    let socket = TcpStream::connect(host).await.context("connecting to ingest over HTTP")?;
    socket.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let mut sent = Sent::default();
    let many = if load.way == Transport::HttpBatch { load.batch } else { 1 };
    loop {
        let Some(wait) = pace.wait(load.tally.now(), load) else { return Ok(sent) };
        if !wait.is_zero() {
            sleep(wait).await;
        }
        let now = load.tally.now();
        let take = || pace.take(now, load, &mut sent);
        let numbers: Vec<u64> =
            std::iter::repeat_with(take).map_while(|taken| taken).take(many).collect();
        if numbers.is_empty() {
            continue;
        }
        let request = match load.way {
            Transport::HttpBatch => batch(load, host, &numbers),
            Transport::Tcp | Transport::Http => single(load, host, numbers[0]),
        };
        let answered = timeout(ANSWER_MAX, answer(&mut sender, request?)).await;
        let text = answered.context("ingest does not answer over HTTP")??;
        let before = sent.sequences.len();
        sent.sequences.extend(sequences(&text));
        let accepted = sent.sequences.len() - before;
        ensure!(accepted == numbers.len(), "ingest did not take all: {}", excerpt(&text));
        load.accepted.fetch_add(accepted as u64, Relaxed);
    }
}

fn single(load: &Load, host: &str, number: u64) -> anyhow::Result<Request<Full<Bytes>>> {
    let plan = &load.plan;
    let destination = destination_name(plan.destination_of(number));
    let mut request = Request::post(format!("/v1/destinations/{destination}/messages"))
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/json");
    request = with_token(load, request);
    if plan.keys > 1 {
        request = request.header("reseq-key", plan.key_of(number).to_string());
    }
    if load.with_idempotency_keys {
        request = request.header("idempotency-key", number.to_string());
    }
    let mut body = Vec::with_capacity(plan.body_bytes);
    plan.write_body(number, &mut body);
    Ok(request.body(Full::from(body))?)
}

fn batch(load: &Load, host: &str, numbers: &[u64]) -> anyhow::Result<Request<Full<Bytes>>> {
    let plan = &load.plan;
    let mut lines = Vec::with_capacity((plan.body_bytes + 96) * numbers.len());
    for &number in numbers {
        let destination = destination_name(plan.destination_of(number));
        load.write_item(number, &format!("\"destinations\":[\"{destination}\"],"), &mut lines);
        lines.push(b'\n');
    }
    let request = Request::post("/v1/messages")
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/x-ndjson");
    Ok(with_token(load, request).body(Full::from(lines))?)
}

fn with_token(load: &Load, request: Builder) -> Builder {
    match &load.listeners.token {
        Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
        None => request,
    }
}

async fn answer(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<String> {
    sender.ready().await.context("ingest closed the connection")?;
    let answer = sender.send_request(request).await.context("sending over HTTP")?;
    let status = answer.status();
    let body = answer.into_body().collect().await.context("reading an answer over HTTP")?;
    let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    ensure!(status == StatusCode::ACCEPTED, "ingest answered {status}: {}", excerpt(&text));
    Ok(text)
}

/// The sequences in an answer, which has a line for each message, in order.
fn sequences(text: &str) -> impl Iterator<Item = u64> {
    text.split(SEQUENCE).skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        rest[..end].parse().ok()
    })
}

fn excerpt(text: &str) -> String {
    text.chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_each_line_is_found() {
        let line = |sequence| {
            format!(
                "{{\"id\":\"a\",\"deliveries\":[{{\"destination\":\"d\",\"sequence\":{sequence},\"epoch\":9}}]}}\n"
            )
        };
        let text = line(4) + "{\"status\":429}\n" + &line(7);
        assert_eq!(sequences(&text).collect::<Vec<_>>(), [4, 7]);
    }
}
