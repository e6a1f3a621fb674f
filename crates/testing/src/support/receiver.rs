//! Receivers over HTTP and TCP: they journal accepted messages before they answer, can be held at
//! any point, and fail on demand.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, atomic::AtomicU64, atomic::AtomicUsize, atomic::Ordering},
    time::Duration,
};

use percent_encoding::percent_decode_str;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream},
    net::{TcpListener, TcpStream},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    gate::{Gate, Point},
    http::{self, Answer, Request},
    journal::{Delivery, Headers, Journal},
    ledger::base_of,
    long::written_down,
};

/// How an exchange fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// 500 over HTTP, `RETRY 1` over TCP: not accepted.
    Refused,
    /// 503, or `RETRY`: not accepted.
    Unavailable,
    /// 503 with `Retry-After`, or `RETRY` with a wait: not accepted.
    AskedToWait,
    /// The connection is cut before the receiver accepts a message.
    CutUnread,
    /// Accepted, and the connection is cut before the answer: a repeat must follow.
    CutAccepted,
    /// Accepted and answered, and the connection is cut right after it.
    CutAnswered,
}

const FAULTS: [Fault; 6] = [
    Fault::Refused,
    Fault::Unavailable,
    Fault::AskedToWait,
    Fault::CutUnread,
    Fault::CutAccepted,
    Fault::CutAnswered,
];
/// The first faults, this many, are drawn at random. The others occur only on request.
const RANDOM: usize = 5;

/// State that all receivers of a test share.
#[derive(Default)]
pub struct Inbox {
    /// Several inboxes may share one journal.
    pub journal: Arc<Journal>,
    pub gate: Gate,
    /// Each request fails with this chance.
    failing: Mutex<Option<(StdRng, f64)>>,
    /// Every exchange fails like this.
    always: Mutex<Option<Fault>>,
    /// Additional time of each exchange, in milliseconds.
    slower_ms: AtomicU64,
    slowed: AtomicUsize,
    failed: [AtomicUsize; FAULTS.len()],
}

impl Inbox {
    /// An inbox that writes into this journal.
    pub fn sharing(journal: &Arc<Journal>) -> Arc<Inbox> {
        Arc::new(Inbox { journal: journal.clone(), ..Inbox::default() })
    }

    /// From now on, exchanges fail with this chance; 0: never.
    pub fn fail(&self, seed: u64, chance: f64) {
        *self.failing.lock().unwrap() = Some((StdRng::seed_from_u64(seed), chance));
    }

    /// From now on, every exchange fails like this; `None`: exchanges succeed again.
    pub fn always(&self, fault: Option<Fault>) {
        *self.always.lock().unwrap() = fault;
    }

    /// From now on, each exchange takes this much more time.
    pub fn slow_down(&self, milliseconds: u64) {
        self.slower_ms.store(milliseconds, Ordering::SeqCst);
    }

    /// How many exchanges failed or were slow.
    pub fn struck(&self) -> usize {
        let failed: usize = self.failed().iter().map(|(_, count)| count).sum();
        failed + self.slowed.load(Ordering::SeqCst)
    }

    /// How often each fault occurred.
    pub fn failed(&self) -> Vec<(Fault, usize)> {
        FAULTS.iter().map(|fault| (*fault, self.count(*fault).load(Ordering::SeqCst))).collect()
    }

    fn count(&self, fault: Fault) -> &AtomicUsize {
        &self.failed[FAULTS.iter().position(|known| *known == fault).unwrap()]
    }

    fn draw(&self) -> Option<Fault> {
        if let Some(fault) = *self.always.lock().unwrap() {
            self.count(fault).fetch_add(1, Ordering::SeqCst);
            return Some(fault);
        }
        let mut failing = self.failing.lock().unwrap();
        let (random, chance) = failing.as_mut()?;
        let fault = random.random_bool(*chance).then(|| FAULTS[random.random_range(0..RANDOM)])?;
        self.count(fault).fetch_add(1, Ordering::SeqCst);
        Some(fault)
    }

    /// Handles a delivery; returns the fault, if any.
    async fn take(&self, delivery: Delivery) -> Option<Fault> {
        let destination = base_of(&delivery.destination).to_owned();
        self.gate.at(Point::Arrived, &destination).await;
        let slower = self.slower_ms.load(Ordering::SeqCst);
        if slower > 0 {
            self.slowed.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(slower)).await;
        }
        let fault = self.draw();
        if fault.is_none_or(|fault| matches!(fault, Fault::CutAccepted | Fault::CutAnswered)) {
            self.journal.note(delivery);
            self.gate.at(Point::Accepted, &destination).await;
        }
        fault
    }
}

/// A running receiver; dropping this stops it.
pub struct Receiver {
    pub address: SocketAddr,
    _server: AbortOnDropHandle<()>,
}

impl Receiver {
    /// A receiver over HTTP, for any number of destinations.
    pub async fn http(inbox: &Arc<Inbox>) -> Receiver {
        let inbox = inbox.clone();
        let (address, server) = http::serve(move |request| {
            let inbox = inbox.clone();
            async move { answer(&inbox, request).await }
        })
        .await;
        Receiver { address, _server: server }
    }

    /// A receiver of lines over TCP, for this destination.
    pub async fn lines(inbox: &Arc<Inbox>, destination: &'static str) -> Receiver {
        Receiver::frames(inbox, destination, false).await
    }

    /// A receiver of frames with a length over TCP, for this destination.
    pub async fn length(inbox: &Arc<Inbox>, destination: &'static str) -> Receiver {
        Receiver::frames(inbox, destination, true).await
    }

    async fn frames(inbox: &Arc<Inbox>, destination: &'static str, with_length: bool) -> Receiver {
        let inbox = inbox.clone();
        let (address, server) = http::accept(move |stream| {
            let inbox = inbox.clone();
            async move {
                let stream = BufStream::new(stream);
                // A killed sender breaks the exchange. Accepted messages stay accepted.
                let _ = converse(stream, &inbox, destination, with_length).await;
            }
        })
        .await;
        Receiver { address, _server: server }
    }

    /// Its URL in a destination, over HTTP.
    pub fn url(&self) -> String {
        format!("http://{}/in", self.address)
    }

    /// Its URL in a destination, over TCP.
    pub fn tcp_url(&self) -> String {
        format!("tcp://{}", self.address)
    }
}

async fn answer(inbox: &Inbox, request: Request) -> Option<Answer> {
    match inbox.take(delivered(request)).await {
        None => Some(Answer::status(200)),
        Some(Fault::CutAnswered) => Some(Answer { is_last: true, ..Answer::status(200) }),
        Some(Fault::Refused) => Some(Answer::status(500)),
        Some(Fault::Unavailable) => Some(Answer { is_last: true, ..Answer::status(503) }),
        Some(Fault::AskedToWait) => {
            Some(Answer { header: "retry-after: 0\r\n", ..Answer::status(503) })
        }
        Some(Fault::CutUnread | Fault::CutAccepted) => None,
    }
}

/// The delivery in an HTTP request.
pub fn delivered(request: Request) -> Delivery {
    Delivery {
        destination: request.header("reseq-destination").to_owned(),
        headers: Some(Headers {
            epoch: request.number("reseq-epoch"),
            sequence: request.number("reseq-sequence"),
            previous: request.number("reseq-previous"),
            id: decoded(request.header("reseq-id")),
            key: request.headers.get("reseq-key").map(|key| decoded(key)),
            attempt: request.number("reseq-attempt"),
        }),
        body: written_down(request.body),
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8().unwrap().into_owned()
}

async fn converse(
    mut stream: BufStream<TcpStream>,
    inbox: &Inbox,
    destination: &str,
    with_length: bool,
) -> std::io::Result<()> {
    loop {
        let Some(body) = read_frame(&mut stream, with_length).await? else { return Ok(()) };
        let (destination, body) = (destination.to_owned(), written_down(body));
        let delivery = Delivery { destination, body, headers: None };
        let fault = inbox.take(delivery).await;
        let text = match fault {
            None | Some(Fault::CutAnswered) => "OK",
            Some(Fault::Refused) => "RETRY 1",
            Some(Fault::Unavailable) => "RETRY",
            Some(Fault::AskedToWait) => "RETRY 2",
            Some(Fault::CutUnread | Fault::CutAccepted) => return Ok(()),
        };
        write_frame(&mut stream, text, with_length).await?;
        // Frames behind a refused one in a window must not be accepted.
        if fault.is_some() {
            return Ok(());
        }
    }
}

/// The next frame; `None` at the end of the connection.
pub async fn read_frame(
    stream: &mut BufStream<TcpStream>,
    with_length: bool,
) -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    if with_length {
        let length = match stream.read_u32().await {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            length => length?,
        };
        bytes.resize(length as usize, 0);
        stream.read_exact(&mut bytes).await?;
    } else {
        stream.read_until(b'\n', &mut bytes).await?;
        if bytes.pop() != Some(b'\n') {
            return Ok(None);
        }
    }
    Ok(Some(http::text(bytes)))
}

/// Writes and flushes a frame.
pub async fn write_frame(
    stream: &mut BufStream<TcpStream>,
    text: &str,
    with_length: bool,
) -> std::io::Result<()> {
    if with_length {
        stream.write_u32(text.len() as u32).await?;
        stream.write_all(text.as_bytes()).await?;
    } else {
        stream.write_all(format!("{text}\n").as_bytes()).await?;
    }
    stream.flush().await
}

/// Accepts lines over TCP, counts them, and answers OK. Keeps none, however many come.
pub async fn count_lines(listener: TcpListener, received: Arc<AtomicU64>) {
    while let Ok((stream, _)) = listener.accept().await {
        let received = received.clone();
        let _ = stream.set_nodelay(true);
        tokio::spawn(async move {
            let mut stream = BufStream::new(stream);
            while let Ok(Some(_)) = read_frame(&mut stream, false).await {
                received.fetch_add(1, Ordering::Relaxed);
                if write_frame(&mut stream, "OK", false).await.is_err() {
                    return;
                }
            }
        });
    }
}
