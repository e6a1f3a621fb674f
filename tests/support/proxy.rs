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
    /// The first request that holds this begins that.
    keeps_answers_from: Option<&'static str>,
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
                    tokio::spawn(pass(near, far, shared.clone()));
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
                    tokio::spawn(pass(near, far, shared.clone()));
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

    /// The same from the next request on that holds this text.
    pub fn keep_answers_from(&self, text: &'static str) {
        self.weather.send_modify(|weather| weather.keeps_answers_from = Some(text));
    }
}

/// What the two directions of a connection know of each other.
type Shared = Arc<watch::Sender<Weather>>;

async fn pass<S: AsyncRead + AsyncWrite>(near: S, far: S, shared: Shared) {
    let ((near_read, near_write), (far_read, far_write)) =
        (tokio::io::split(near), tokio::io::split(far));
    let weather = shared.subscribe();
    let (mut cut, cuts) = (weather.clone(), weather.borrow().cuts);
    tokio::select! {
        () = copy(near_read, far_write, None, Some(shared)) => {}
        () = copy(far_read, near_write, Some((weather, cuts)), None) => {}
        _ = cut.wait_for(|weather| weather.cuts != cuts) => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut weather: Option<(watch::Receiver<Weather>, usize)>,
    requests: Option<Shared>,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let wanted = requests.as_ref().and_then(|shared| shared.borrow().keeps_answers_from);
        if let (Some(shared), Some(text)) = (&requests, wanted)
            && buffer[..count].windows(text.len()).any(|part| part == text.as_bytes())
        {
            shared.send_modify(|weather| {
                weather.keeps_answers_from = None;
                weather.keeps_answers_of = Some(weather.cuts);
            });
        }
        if let Some((weather, cuts)) = &mut weather {
            let _ = weather.wait_for(|weather| weather.keeps_answers_of != Some(*cuts)).await;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
