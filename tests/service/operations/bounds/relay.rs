//! A proxy in front of Redis that measures the largest request and the largest reply.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{UnixListener, UnixStream},
};
use tokio_util::task::AbortOnDropHandle;

/// Bytes of the largest request and of the largest reply since the last measurement.
#[derive(Debug, Default)]
pub struct Largest {
    request: AtomicUsize,
    reply: AtomicUsize,
}

impl Largest {
    /// Returns both and starts again from zero.
    pub fn take(&self) -> (usize, usize) {
        (self.request.swap(0, Ordering::Relaxed), self.reply.swap(0, Ordering::Relaxed))
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
    tokio::select! {
        () = copy(near_read, far_write, &largest.request) => {}
        () = copy(far_read, near_write, &largest.reply) => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    largest: &AtomicUsize,
) {
    let (mut chunk, mut kept) = (vec![0; 1 << 16], Vec::new());
    while let Ok(count @ 1..) = from.read(&mut chunk).await {
        kept.extend_from_slice(&chunk[..count]);
        let mut at = 0;
        while let Some(end) = end_of(&kept, at) {
            largest.fetch_max(end - at, Ordering::Relaxed);
            at = end;
        }
        kept.drain(..at);
        if to.write_all(&chunk[..count]).await.is_err() {
            return;
        }
    }
}

/// Where the value that starts at `at` ends, if it has arrived completely.
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
