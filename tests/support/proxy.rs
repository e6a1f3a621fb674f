//! A way to a server that can be cut, or that keeps answers back.

use std::sync::Arc;

use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::watch,
};
use tokio_util::task::AbortOnDropHandle;

/// How connections are at the moment.
#[derive(Debug, Clone, Copy, Default)]
struct Weather {
    /// How often all were cut.
    cuts: usize,
    /// Of connections that were made after so many cuts, answers are kept for ever.
    keeps_answers_of: Option<usize>,
}

/// Passes connections on to one server.
pub struct Proxy {
    pub url: String,
    weather: Arc<watch::Sender<Weather>>,
    _dir: Option<TempDir>,
    _server: AbortOnDropHandle<()>,
}

impl Proxy {
    /// A way to the server on this Unix socket, `unix://…`.
    pub fn unix(url: &str) -> Proxy {
        let target = url.strip_prefix("unix://").expect("a URL of a Unix socket").to_owned();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("way");
        let listener = UnixListener::bind(&path).unwrap();
        let weather = Arc::new(watch::Sender::new(Weather::default()));
        let shared = weather.clone();
        let server = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.expect("a test can accept connections");
                if let Ok(far) = UnixStream::connect(&target).await {
                    tokio::spawn(pass(near, far, shared.subscribe()));
                }
            }
        });
        let url = format!("unix://{}", path.display());
        Proxy { url, weather, _dir: Some(dir), _server: AbortOnDropHandle::new(server) }
    }

    /// A way to the server on this port of the loopback, for HTTP.
    pub async fn http(port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/in", listener.local_addr().unwrap());
        let weather = Arc::new(watch::Sender::new(Weather::default()));
        let shared = weather.clone();
        let server = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.expect("a test can accept connections");
                if let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await {
                    let _ = (near.set_nodelay(true), far.set_nodelay(true));
                    tokio::spawn(pass(near, far, shared.subscribe()));
                }
            }
        });
        Proxy { url, weather, _dir: None, _server: AbortOnDropHandle::new(server) }
    }

    /// Cuts all connections. New ones pass.
    pub fn cut(&self) {
        self.weather.send_modify(|weather| weather.cuts += 1);
    }

    /// On the connections that there are no answer arrives any more; a cut frees the way.
    pub fn keep_answers(&self) {
        self.weather.send_modify(|weather| weather.keeps_answers_of = Some(weather.cuts));
    }
}

async fn pass<S: AsyncRead + AsyncWrite>(near: S, far: S, weather: watch::Receiver<Weather>) {
    let ((near_read, near_write), (far_read, far_write)) =
        (tokio::io::split(near), tokio::io::split(far));
    let (mut cut, cuts) = (weather.clone(), weather.borrow().cuts);
    tokio::select! {
        () = copy(near_read, far_write, None) => {}
        () = copy(far_read, near_write, Some((weather, cuts))) => {}
        _ = cut.wait_for(|weather| weather.cuts != cuts) => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut weather: Option<(watch::Receiver<Weather>, usize)>,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if let Some((weather, cuts)) = &mut weather {
            let _ = weather.wait_for(|weather| weather.keeps_answers_of != Some(*cuts)).await;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
