//! A proxy in front of Redis that measures the largest request and the largest reply.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{UnixListener, UnixStream},
};
use tokio_util::task::AbortOnDropHandle;

use super::watch::HOLDERS_MAX;

/// Bytes of the largest request and of the largest reply since the last measurement.
#[derive(Debug, Default)]
pub struct Largest {
    request: AtomicUsize,
    reply: AtomicUsize,
    /// Bytes of the largest reply to a request other than those of the metrics ([`is_look`]).
    reply_of_others: AtomicUsize,
}

impl Largest {
    /// Returns all three numbers and resets them.
    pub fn take(&self) -> (usize, usize, usize) {
        let take = |bytes: &AtomicUsize| bytes.swap(0, Ordering::Relaxed);
        (take(&self.request), take(&self.reply), take(&self.reply_of_others))
    }
}

pub struct Relay {
    pub url: String,
    pub largest: Arc<Largest>,
    _dir: TempDir,
    _server: AbortOnDropHandle<()>,
}

impl Relay {
    /// A proxy to the server at this Unix socket, `unix://…`.
    pub fn to(url: &str) -> Relay {
        let target = url.strip_prefix("unix://").expect("a URL of a Unix socket").to_owned();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("relay");
        let listener = UnixListener::bind(&path).unwrap();
        let largest = Arc::new(Largest::default());
        let shared = largest.clone();
        let server = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.expect("a test can accept connections");
                let Ok(far) = UnixStream::connect(&target).await else { continue };
                tokio::spawn(pass(near, far, shared.clone()));
            }
        });
        let url = format!("unix://{}", path.display());
        Relay { url, largest, _dir: dir, _server: AbortOnDropHandle::new(server) }
    }
}

async fn pass(near: UnixStream, far: UnixStream, largest: Arc<Largest>) {
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    // For each request without a reply: whether it is one of the metrics. Replies come in the order of requests.
    let looks = Mutex::new(VecDeque::new());
    let requested = |request: &[u8]| {
        largest.request.fetch_max(request.len(), Ordering::Relaxed);
        looks.lock().unwrap().push_back(is_look(request));
    };
    let replied = |reply: &[u8]| {
        largest.reply.fetch_max(reply.len(), Ordering::Relaxed);
        if looks.lock().unwrap().pop_front() != Some(true) {
            largest.reply_of_others.fetch_max(reply.len(), Ordering::Relaxed);
        }
    };
    tokio::select! {
        () = copy(near_read, far_write, requested) => {}
        () = copy(far_read, near_write, replied) => {}
    }
}

/// True if a request reads all leases of a partition, to find the holders of messages, or the attempts of some messages,
/// to find which fail: both read a bounded number. Pods do that for the metrics, during any operation.
fn is_look(request: &[u8]) -> bool {
    // A long request has bodies, so it is not this query.
    let text = if request.len() < 200 { String::from_utf8_lossy(request) } else { "".into() };
    text.contains("HRANDFIELD")
        || text.contains(":leases\r\n") && text.contains(&format!("\r\n{}\r\n", HOLDERS_MAX - 1))
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    note: impl Fn(&[u8]),
) {
    let (mut chunk, mut kept) = (vec![0; 1 << 16], Vec::new());
    while let Ok(count @ 1..) = from.read(&mut chunk).await {
        kept.extend_from_slice(&chunk[..count]);
        let mut at = 0;
        while let Some(end) = end_of(&kept, at) {
            note(&kept[at..end]);
            at = end;
        }
        kept.drain(..at);
        if to.write_all(&chunk[..count]).await.is_err() {
            return;
        }
    }
}

/// The end of the value that starts at `at`, if it has arrived completely.
fn end_of(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let line = rest.windows(2).position(|two| two == b"\r\n")?;
    let (kind, after) = (*rest.first()?, at + line + 2);
    let count = || std::str::from_utf8(&rest[1..line]).ok()?.parse::<i64>().ok();
    let items = match kind {
        b'$' | b'=' | b'!' => {
            let length = usize::try_from(count()?).map_or(0, |length| length + 2);
            return (bytes.len() >= after + length).then_some(after + length);
        }
        b'*' | b'~' | b'>' => count()?,
        b'%' => 2 * count()?,
        _ => 0,
    };
    let mut end = after;
    for _ in 0..items.max(0) {
        end = end_of(bytes, end)?;
    }
    Some(end)
}
