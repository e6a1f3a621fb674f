//! The planned processing times, and the ideal departures. No clock.
//!
//! The ideal and the one-at-a-time departures depend only on when the producer sent and on the planned processing
//! times. They use no measurement by Reseq.

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::StdRng};

/// The two streams of the demo. Messages of one stream never wait for the other stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// In over HTTP, out over HTTP.
    Http,
    /// In over TCP, out over TCP.
    Tcp,
}

impl Stream {
    /// Both streams, in the order of the columns of the report.
    pub const ALL: [Stream; 2] = [Stream::Http, Stream::Tcp];

    /// The name of the destination of the stream.
    pub fn destination(self) -> &'static str {
        match self {
            Stream::Http => "demo-http",
            Stream::Tcp => "demo-tcp",
        }
    }

    /// The stream of a destination.
    pub fn of_destination(name: &str) -> Option<Stream> {
        Stream::ALL.into_iter().find(|stream| stream.destination() == name)
    }
}

/// The planned processing times. Each stream numbers its messages from 1.
#[derive(Debug)]
pub struct Plan {
    work: [Vec<Duration>; 2],
}

impl Plan {
    /// Draws `messages` processing times for each stream, uniform from `min` to `max`. The same
    /// seed draws the same times.
    pub fn draw(messages: usize, min: Duration, max: Duration, seed: u64) -> Plan {
        let micros = |duration: Duration| duration.as_micros() as u64;
        let (min, max) = (micros(min), micros(max));
        let work = Stream::ALL.map(|stream| {
            let mut random =
                StdRng::seed_from_u64(seed.wrapping_mul(2).wrapping_add(stream as u64));
            let one = |_| Duration::from_micros(random.random_range(min..=max));
            (0..messages).map(one).collect()
        });
        Plan { work }
    }

    /// The processing times of a stream's messages, in order.
    pub fn work(&self, stream: Stream) -> &[Duration] {
        &self.work[stream as usize]
    }

    /// The processing time of message `n`; `None` if it does not exist.
    pub fn work_of(&self, stream: Stream, n: usize) -> Option<Duration> {
        self.work(stream).get(n.checked_sub(1)?).copied()
    }
}

/// The departure of each message if all messages start when they are sent, and each leaves as soon as it and all
/// messages before it are finished: the largest `sent + work` so far.
pub fn ideal_departures(sent: &[Duration], work: &[Duration]) -> Vec<Duration> {
    let finished = sent.iter().zip(work).map(|(sent, work)| *sent + *work);
    finished.scan(Duration::ZERO, latest).collect()
}

/// The departure of each message if each starts only after the message before it has left.
pub fn one_at_a_time_departures(sent: &[Duration], work: &[Duration]) -> Vec<Duration> {
    let pairs = sent.iter().zip(work);
    pairs
        .scan(Duration::ZERO, |last, (sent, work)| latest(last, (*sent).max(*last) + *work))
        .collect()
}

fn latest(last: &mut Duration, at: Duration) -> Option<Duration> {
    *last = at.max(*last);
    Some(*last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms<const N: usize>(values: [u64; N]) -> [Duration; N] {
        values.map(Duration::from_millis)
    }

    #[test]
    fn ideally_a_message_waits_only_for_itself_and_those_before_it() {
        let sent = ms([0, 250, 500, 750]);
        let work = ms([900, 500, 1000, 500]);
        assert_eq!(ideal_departures(&sent, &work), ms([900, 900, 1500, 1500]));
    }

    #[test]
    fn one_at_a_time_plan_waits_for_each_and_keeps_idle_time() {
        let sent = ms([0, 250, 500, 5000]);
        let work = ms([900, 500, 1000, 500]);
        assert_eq!(one_at_a_time_departures(&sent, &work), ms([900, 1400, 2400, 5500]));
    }

    #[test]
    fn a_seed_draws_the_same_times_and_the_streams_differ() {
        let [min, max] = ms([500, 1000]);
        let plan = Plan::draw(50, min, max, 7);
        let again = Plan::draw(50, min, max, 7);
        assert_eq!(plan.work, again.work);
        assert_ne!(plan.work(Stream::Http), plan.work(Stream::Tcp));
        assert!(plan.work.iter().flatten().all(|work| (min..=max).contains(work)));
        assert_eq!(plan.work_of(Stream::Tcp, 50), Some(plan.work(Stream::Tcp)[49]));
        assert_eq!((plan.work_of(Stream::Tcp, 0), plan.work_of(Stream::Tcp, 51)), (None, None));
    }
}
