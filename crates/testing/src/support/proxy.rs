//! A proxy before a server that can cut connections or withhold answers.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::watch,
};
use tokio_util::task::AbortOnDropHandle;

/// The current state of the connections.
#[derive(Debug, Clone, Copy, Default)]
struct Weather {
    /// How often all connections were cut.
    cuts: usize,
    /// Answers are withheld on connections made after this many cuts.
    keeps_answers_of: Option<usize>,
    /// Connections with a lower number pass no data.
    forgotten: usize,
}

/// State that the connections share.
#[derive(Default)]
struct Shared {
    weather: watch::Sender<Weather>,
    /// Answers are withheld once a request contains this.
    trap: Mutex<Option<String>>,
    /// The number of connections so far.
    made: AtomicUsize,
}

/// A proxy before one server.
pub struct Proxy {
    pub url: String,
    shared: Arc<Shared>,
    _dir: Option<TempDir>,
    _server: AbortOnDropHandle<()>,
}

impl Proxy {
    /// A proxy before the server on this Unix socket, `unix://…`.
    pub fn unix(url: &str) -> Proxy {
        let target = url.strip_prefix("unix://").expect("a URL of a Unix socket").to_owned();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("way");
        let listener = UnixListener::bind(&path).unwrap();
        let shared = Arc::new(Shared::default());
        let passing = shared.clone();
        let server = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.expect("a test can accept connections");
                if let Ok(far) = UnixStream::connect(&target).await {
                    tokio::spawn(pass(near, far, passing.clone()));
                }
            }
        });
        let url = format!("unix://{}", path.display());
        Proxy { url, shared, _dir: Some(dir), _server: AbortOnDropHandle::new(server) }
    }

    /// A proxy before the HTTP server on this loopback port.
    pub async fn http(port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/in", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        let passing = shared.clone();
        let server = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.expect("a test can accept connections");
                if let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await {
                    let _ = (near.set_nodelay(true), far.set_nodelay(true));
                    tokio::spawn(pass(near, far, passing.clone()));
                }
            }
        });
        Proxy { url, shared, _dir: None, _server: AbortOnDropHandle::new(server) }
    }

    /// Cuts all connections. New ones pass.
    pub fn cut(&self) {
        self.shared.weather.send_modify(|weather| weather.cuts += 1);
    }

    /// Withholds answers on all current connections, until the next cut.
    pub fn keep_answers(&self) {
        self.shared.keep_answers();
    }

    /// Forgets all current connections, like a network that lost its state: neither side is
    /// notified, and no data passes. New connections pass.
    pub fn forget(&self) {
        let made = self.shared.made.load(Ordering::SeqCst);
        self.shared.weather.send_modify(|weather| weather.forgotten = made);
    }

    /// Withholds answers once a request contains this.
    pub fn keep_answers_when_asked(&self, what: &str) {
        *self.shared.trap.lock().unwrap() = Some(what.to_owned());
    }

    /// True once such a request came.
    pub fn was_asked(&self) -> bool {
        self.shared.trap.lock().unwrap().is_none()
    }
}

impl Shared {
    fn keep_answers(&self) {
        self.weather.send_modify(|weather| weather.keeps_answers_of = Some(weather.cuts));
    }

    fn asked(&self, bytes: &[u8]) {
        let mut trap = self.trap.lock().unwrap();
        let what = trap.as_deref().unwrap_or_default().as_bytes();
        if !what.is_empty() && bytes.windows(what.len()).any(|found| found == what) {
            *trap = None;
            self.keep_answers();
        }
    }
}

async fn pass<S: AsyncRead + AsyncWrite>(near: S, far: S, shared: Arc<Shared>) {
    let weather = shared.weather.subscribe();
    let ((near_read, near_write), (far_read, far_write)) =
        (tokio::io::split(near), tokio::io::split(far));
    let (mut cut, cuts) = (weather.clone(), weather.borrow().cuts);
    let number = shared.made.fetch_add(1, Ordering::SeqCst);
    tokio::select! {
        () = copy(near_read, far_write, None, |bytes| shared.asked(bytes)) => {}
        () = copy(far_read, near_write, Some((weather, cuts, number)), |_| ()) => {}
        _ = cut.wait_for(|weather| weather.cuts != cuts) => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut weather: Option<(watch::Receiver<Weather>, usize, usize)>,
    passes: impl Fn(&[u8]),
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        passes(&buffer[..count]);
        if let Some((weather, cuts, number)) = &mut weather {
            let passes =
                |now: &Weather| now.keeps_answers_of != Some(*cuts) && *number >= now.forgotten;
            let _ = weather.wait_for(passes).await;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
