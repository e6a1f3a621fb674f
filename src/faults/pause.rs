//! Named points between two durable effects, at which a test can hold this process, end it, or cut
//! its connections.

/// Where a process can be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Point {
    /// Arrivals are stamped; the producer has no answer yet.
    IngestStamped,
    /// Messages are claimed; no transform has begun.
    ProcessorClaimed,
    /// The transform has answered; Redis does not know.
    ProcessorTransformed,
    /// The completion is in Redis; this process has not read the answer.
    ProcessorCompleted,
    /// A run was released; nothing of it is sent.
    SenderReleased,
    /// A delivery is about to be sent.
    SenderSending,
    /// The receiver has answered; nothing is settled.
    SenderAccepted,
    /// What was delivered is settled in Redis; the next run is not begun.
    SenderAcked,
    /// The owner is about to renew its leases.
    OwnerRenewing,
    /// What is overdue was found; nothing is reaped yet.
    ReaperScanned,
    /// Draining has begun.
    ShutdownDraining,
}

/// Holds, ends or cuts this process here, if a test said so.
#[inline(always)]
pub async fn point(_: Point) {}
