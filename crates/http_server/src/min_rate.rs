//! The minimum speed at which a client must send a body or frame.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

/// The minimum speed. Only time spent waiting for the client counts.
#[derive(Debug, Clone, Copy)]
pub struct MinRate {
    /// The fewest bytes per window; 0: no limit.
    bytes_min: u64,
    /// The length of a window.
    pub window: Duration,
}

/// The error of a client that sent too slowly.
#[derive(Debug, thiserror::Error)]
#[error("the body came too slowly")]
pub struct TooSlow;

impl MinRate {
    /// Requires this many bytes per second, averaged over windows of this length.
    pub fn new(bytes_per_second_min: u64, window: Duration) -> MinRate {
        let bytes = u128::from(bytes_per_second_min) * window.as_millis() / 1000;
        // Require at least one byte, even in a very short window.
        let least = u64::from(bytes_per_second_min > 0);
        MinRate { bytes_min: u64::try_from(bytes).unwrap_or(u64::MAX).max(least), window }
    }

    /// True if this many bytes in one window are enough.
    pub fn is_kept(&self, bytes: usize) -> bool {
        bytes as u64 >= self.bytes_min
    }
}

/// A body that fails if it arrives too slowly.
pub struct Paced {
    body: Body,
    pace: MinRate,
    /// Set when the body was too slow.
    is_late: Arc<AtomicBool>,
    /// The end of the window; `None` before the first wait.
    window: Option<Pin<Box<Sleep>>>,
    /// Since when the server waits for the client.
    since: Option<Instant>,
    /// Waiting time earlier in this window.
    waited: Duration,
    /// Bytes received in this window.
    came: usize,
}

impl Paced {
    /// Limits this body. `is_late` becomes true if it fails for being too slow.
    pub fn new(body: Body, pace: MinRate, is_late: Arc<AtomicBool>) -> Paced {
        let (since, waited) = (None, Duration::ZERO);
        Paced { body, pace, is_late, window: None, since, waited, came: 0 }
    }

    /// Called while no data is available. Resolves when a window ended with too few bytes.
    fn poll_window(&mut self, cx: &mut Context<'_>) -> Poll<TooSlow> {
        loop {
            let since = *self.since.get_or_insert_with(Instant::now);
            let end = since + self.pace.window.saturating_sub(self.waited);
            let window = self.window.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
            if window.deadline() != end {
                window.as_mut().reset(end);
            }
            if window.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if !self.pace.is_kept(self.came) {
                return Poll::Ready(TooSlow);
            }
            (self.since, self.waited, self.came) = (None, Duration::ZERO, 0);
        }
    }
}

impl HttpBody for Paced {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            if let Some(since) = self.since.take() {
                self.waited += since.elapsed();
            }
            if let Some(Ok(frame)) = &frame {
                self.came += frame.data_ref().map_or(0, Bytes::len);
            }
            return Poll::Ready(frame);
        }
        self.poll_window(cx).map(|too_slow| {
            self.is_late.store(true, Ordering::Relaxed);
            Some(Err(axum::Error::new(too_slow)))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::BodyDataStream;
    use futures::{FutureExt, StreamExt};
    use tokio::sync::mpsc;

    use super::*;

    /// A body whose parts have the lengths that the test sends.
    fn body() -> (mpsc::UnboundedSender<usize>, Body) {
        let (send, parts) = mpsc::unbounded_channel::<usize>();
        let parts = futures::stream::unfold(parts, async |mut parts| {
            let part = Ok::<_, std::io::Error>(vec![7; parts.recv().await?]);
            Some((part, parts))
        });
        (send, Body::from_stream(parts))
    }

    #[tokio::test]
    async fn a_body_that_brings_too_little_in_a_window_fails() {
        let (send, slow) = body();
        let is_late = Arc::new(AtomicBool::new(false));
        let pace = MinRate::new(1, Duration::from_millis(1));
        let mut slow: BodyDataStream =
            Body::new(Paced::new(slow, pace, is_late.clone())).into_data_stream();
        for bytes in [1, 60, 1] {
            send.send(bytes).unwrap();
            assert_eq!(slow.next().await.unwrap().unwrap().len(), bytes);
        }
        assert!(!is_late.load(Ordering::Relaxed));
        assert!(slow.next().await.unwrap().is_err());
        assert!(is_late.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn only_time_in_which_the_client_is_waited_for_counts() {
        let (send, slow) = body();
        let pace = MinRate::new(1, Duration::from_secs(3600));
        let mut slow = Paced::new(slow, pace, Arc::default());
        let mut next = async || {
            let frame = futures::future::poll_fn(|cx| Pin::new(&mut slow).poll_frame(cx));
            let came = frame.now_or_never().flatten().map(|frame| frame.unwrap());
            (came.and_then(|frame| frame.data_ref().map(Bytes::len)), slow.since, slow.came)
        };
        let (came, since, _) = next().await;
        assert!(came.is_none() && since.is_some());
        send.send(8).unwrap();
        assert_eq!(next().await, (Some(8), None, 8));
        let (came, since, all) = next().await;
        assert!(came.is_none() && since.is_some() && all == 8);
    }

    #[test]
    fn no_least_speed_is_kept_by_nothing_and_the_smallest_is_not() {
        assert!(MinRate::new(0, Duration::from_secs(1)).is_kept(0));
        let smallest = MinRate::new(1, Duration::from_millis(10));
        assert!(!smallest.is_kept(0) && smallest.is_kept(1));
    }
}
