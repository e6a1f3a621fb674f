//! The times of delivered messages: how long they took, and the shortest time that order, processing and delivery
//! allow.

use std::{sync::Arc, time::Duration};

use super::{Lane, Now};
use domain::{Sequence, Stamped, TraceContext};
use telemetry::{SpanOf, Times};

/// The message of a lane that was delivered last. The spans of the messages behind it refer to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    pub(crate) sequence: Sequence,
    /// The span of its delivery, if its trace is recorded.
    pub(crate) span: Option<TraceContext>,
    /// When its delivery ended, in ms since 1970.
    pub(crate) left_ms: u64,
}

impl Before {
    fn of(message: &Stamped, left_ms: u64) -> Before {
        let attempt = message.attempts.failed + 1;
        let span = telemetry::span_of(&message.message, SpanOf::Deliver, attempt);
        Before { sequence: message.position.sequence, span, left_ms }
    }
}

impl Lane {
    /// The message that was delivered last, if the lane remembers it.
    pub(crate) fn before(&self) -> Option<&Before> {
        self.before.as_ref()
    }

    /// The times of the accepted messages of a delivery that has just ended and took `took_ms`. The least possible time
    /// assumes that processing begins at the arrival, and a delivery begins when its messages are processed and the
    /// previous delivery has ended.
    pub(crate) fn times(
        &mut self,
        accepted: &[Arc<Stamped>],
        has_transform: bool,
        took_ms: u64,
        now: Now,
    ) -> Vec<Times> {
        let begun_ms = now.ms.saturating_sub(took_ms);
        let could_begin =
            accepted.iter().filter_map(|message| could_begin_ms(message, has_transform));
        self.ideal_end_ms =
            could_begin.chain([self.ideal_end_ms]).max().unwrap_or_default() + took_ms;
        self.before = accepted.last().map(|last| Before::of(last, now.ms));
        let times = |message: &Arc<Stamped>| {
            let is_first_attempt = message.attempts.failed == 0;
            let processed_ms = message.processed_ms(has_transform).filter(|_| is_first_attempt);
            let is_known = could_begin_ms(message, has_transform).is_some();
            let since = |end: u64, begin: u64| Duration::from_millis(end.saturating_sub(begin));
            Times {
                end_to_end: since(now.ms, message.message.received_ms),
                resequencing_wait: processed_ms.map(|processed_ms| since(begun_ms, processed_ms)),
                overhead: is_known.then(|| since(now.ms, self.ideal_end_ms)),
            }
        };
        accepted.iter().map(times).collect()
    }
}

/// The earliest time at which the processing of the message could have ended: without a wait.
fn could_begin_ms(message: &Stamped, has_transform: bool) -> Option<u64> {
    let processed_ms = message.processed_ms(has_transform)?;
    Some(processed_ms - message.processed.map_or(0, |processed| processed.waited_ms))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::time::Instant;

    use super::*;
    use domain::{Body, Message, Position, Processed};

    fn message(sequence: u64, received_ms: u64, processed: Option<(u64, u64)>) -> Arc<Stamped> {
        let body = Body { content_type: "text/plain".into(), bytes: Bytes::new() };
        let id = sequence.to_string();
        let message = Message { id, key: None, headers: Vec::new(), body, received_ms };
        let position = Position { epoch: 1, sequence };
        let processed =
            processed.map(|(waited_ms, took_ms)| Processed { waited_ms, took_ms, attempts: 1 });
        let stamped = Stamped::new("erp".parse().unwrap(), position, sequence - 1, message);
        Arc::new(Stamped { processed, ..stamped })
    }

    fn ms(ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(ms))
    }

    #[test]
    fn overhead_excludes_order_processing_and_delivery_time() {
        let mut lane = Lane::default();
        let mut times = |message: &Arc<Stamped>, took_ms, end_ms| {
            let now = Now { instant: Instant::now(), ms: end_ms };
            let times = lane.times(std::slice::from_ref(message), true, took_ms, now);
            (times[0].resequencing_wait, times[0].overhead)
        };
        // Arrived at 1,000, waited 5 ms for a slot, processed for 100 ms: ready at 1,105. Sent from 1,108 to 1,118.
        assert_eq!(times(&message(1, 1_000, Some((5, 100))), 10, 1_118), (ms(3), ms(8)));
        // Ready at 1,030, and had to wait for the first, which could have ended at 1,110.
        assert_eq!(times(&message(2, 1_010, Some((0, 20))), 10, 1_128), (ms(88), ms(8)));
        // Nothing waited.
        assert_eq!(times(&message(3, 2_000, Some((0, 50))), 10, 2_060), (ms(0), ms(0)));
        // The time of processing is not known.
        assert_eq!(times(&message(4, 2_000, None), 10, 2_070), (None, None));
    }

    #[test]
    fn unprocessed_message_is_ready_on_arrival_retry_has_no_wait() {
        let mut lane = Lane::default();
        let now = Now { instant: Instant::now(), ms: 1_050 };
        let mut again = (*message(2, 1_000, None)).clone();
        again.attempts.failed = 1;
        let batch = [message(1, 1_000, None), Arc::new(again)];
        let times = lane.times(&batch, false, 20, now);
        assert_eq!((times[0].resequencing_wait, times[0].overhead), (ms(30), ms(30)));
        assert_eq!((times[1].resequencing_wait, times[1].overhead), (None, ms(30)));
        assert_eq!(times[1].end_to_end, Duration::from_millis(50));
    }
}
