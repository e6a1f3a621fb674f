//! Named points between two durable effects. A test can pause this process there, and meanwhile
//! kill it or cut its connections.
//!
//! With the feature `pause-points` and `RESEQ_PAUSE_SOCKET` set, each visit of a point opens a
//! connection to the test's Unix socket and writes one line, `<point> <process id>`. The visitor
//! continues when the test closes that connection.

/// Defines the points and their names.
macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)*) => {
        /// A point at which a process can be paused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Point {
            $($(#[$doc])* $point,)*
        }

        #[cfg(feature = "pause-points")]
        impl Point {
            /// All points, in the order of a message's path.
            pub const ALL: &'static [Point] = &[$(Point::$point),*];

            /// The name of the point in tests and tables.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Point::$point => $name,)*
                }
            }
        }
    };
}

points! {
    /// A batch of arrivals is gathered; Redis does not know it yet.
    IngestGathered = "ingest.gathered",
    /// Arrivals are stamped; the producer has no answer yet.
    IngestStamped = "ingest.stamped",
    /// Messages are claimed; no transform has begun.
    ProcessorClaimed = "processor.claimed",
    /// The transform has answered; Redis does not know it yet.
    ProcessorTransformed = "processor.transformed",
    /// The completion is in Redis; this process has not acted on the answer yet.
    ProcessorCompleted = "processor.completed",
    /// A failed attempt is in Redis; this process has not acted on it yet.
    ProcessorFailed = "processor.failed",
    /// A run is released; none of its messages is sent.
    SenderReleased = "sender.released",
    /// A delivery is about to be sent.
    SenderSending = "sender.sending",
    /// The receiver has accepted a delivery; nothing is settled.
    SenderAccepted = "sender.accepted",
    /// The receiver has refused a delivery; Redis does not know it yet.
    SenderRefused = "sender.refused",
    /// The refusal is in Redis: the head waits, is halted or leaves. The sender still holds the
    /// lane.
    SenderEnded = "sender.ended",
    /// The delivered messages are settled in Redis; the next run has not begun.
    SenderAcked = "sender.acked",
    /// This pod owns a partition, and has not read anything in it.
    OwnerTaken = "owner.taken",
    /// The owner is about to renew its leases.
    OwnerRenewing = "owner.renewing",
    /// Expired leases are found; nothing is reaped yet.
    ReaperScanned = "reaper.scanned",
    /// Draining has begun.
    ShutdownDraining = "shutdown.draining",
}

/// Pauses this process here, if a test requests it.
#[cfg(not(feature = "pause-points"))]
#[inline(always)]
pub async fn point(_: Point) {}

/// Pauses this process here, if a test requests it.
#[cfg(feature = "pause-points")]
pub async fn point(point: Point) {
    static SOCKET: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    if let Some(socket) = SOCKET.get_or_init(|| std::env::var("RESEQ_PAUSE_SOCKET").ok()) {
        // If the test has ended, do not pause.
        let _ = visit(socket, point).await;
    }
}

/// Reports the visit to the test, and waits until it closes the connection.
#[cfg(feature = "pause-points")]
async fn visit(socket: &str, point: Point) -> std::io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::UnixStream::connect(socket).await?;
    let line = format!("{} {}\n", point.name(), std::process::id());
    stream.write_all(line.as_bytes()).await?;
    stream.read(&mut [0]).await.map(drop)
}
