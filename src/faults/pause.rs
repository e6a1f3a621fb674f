//! Named points between two durable effects, at which a test can hold this process, and end it or
//! cut its connections meanwhile.
//!
//! With the feature `pause-points` and `RESEQ_PAUSE_SOCKET` set, each visit of a point is told to the
//! test that listens on that Unix socket, over a connection of its own: one line, `<point> <process
//! id>`. The visitor goes on when the test ends that connection.

/// Defines the points, with the name of each.
macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)*) => {
        /// Where a process can be held.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Point {
            $($(#[$doc])* $point,)*
        }

        #[cfg(feature = "pause-points")]
        impl Point {
            /// All points, in the order of a message's way.
            pub const ALL: &'static [Point] = &[$(Point::$point),*];

            /// Its name, as tests and tables have it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Point::$point => $name,)*
                }
            }
        }
    };
}

points! {
    /// A batch of arrivals is gathered; Redis knows nothing of it.
    IngestGathered = "ingest.gathered",
    /// Arrivals are stamped; the producer has no answer yet.
    IngestStamped = "ingest.stamped",
    /// Messages are claimed; no transform has begun.
    ProcessorClaimed = "processor.claimed",
    /// The transform has answered; Redis does not know.
    ProcessorTransformed = "processor.transformed",
    /// The completion is in Redis; this process has done nothing with the answer.
    ProcessorCompleted = "processor.completed",
    /// A failed attempt is in Redis; nothing has followed from it.
    ProcessorFailed = "processor.failed",
    /// A run was released; nothing of it is sent.
    SenderReleased = "sender.released",
    /// A delivery is about to be sent.
    SenderSending = "sender.sending",
    /// The receiver has accepted; nothing is settled.
    SenderAccepted = "sender.accepted",
    /// The receiver has refused; Redis does not know.
    SenderRefused = "sender.refused",
    /// The refusal is in Redis: the head waits, is halted or leaves. The lane is still in hand.
    SenderEnded = "sender.ended",
    /// What was delivered is settled in Redis; the next run is not begun.
    SenderAcked = "sender.acked",
    /// A partition is owned; nothing of it was looked at.
    OwnerTaken = "owner.taken",
    /// The owner is about to renew its leases.
    OwnerRenewing = "owner.renewing",
    /// What is overdue was found; nothing is reaped yet.
    ReaperScanned = "reaper.scanned",
    /// Draining has begun.
    ShutdownDraining = "shutdown.draining",
}

/// Holds this process here, if a test says so.
#[cfg(not(feature = "pause-points"))]
#[inline(always)]
pub async fn point(_: Point) {}

/// Holds this process here, if a test says so.
#[cfg(feature = "pause-points")]
pub async fn point(point: Point) {
    static SOCKET: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    if let Some(socket) = SOCKET.get_or_init(|| std::env::var("RESEQ_PAUSE_SOCKET").ok()) {
        // A test that is gone holds nobody.
        let _ = visit(socket, point).await;
    }
}

/// Tells the test, and waits until it lets go.
#[cfg(feature = "pause-points")]
async fn visit(socket: &str, point: Point) -> std::io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::UnixStream::connect(socket).await?;
    let line = format!("{} {}\n", point.name(), std::process::id());
    stream.write_all(line.as_bytes()).await?;
    stream.read(&mut [0]).await.map(drop)
}
