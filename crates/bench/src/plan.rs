//! Decides for each message its destination, its body, when it is due, and how long its work takes. No I/O.
//!
//! Messages are numbered from 0 over the whole run. The number determines the stream (connection)
//! that sends the message, its destination, its ordering key, its lane and its work.

use std::{io::Write, time::Duration};

use super::args::{BenchArgs, OrderingArg};

/// Maps the numbers of messages to destinations, keys, lanes and work.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The number of connections to ingest.
    pub streams: u64,
    /// The number of destinations.
    pub destinations: u64,
    /// The number of ordering keys of each destination.
    pub keys: u64,
    /// Which messages stay in order.
    pub ordering: OrderingArg,
    /// The number of bytes of a body.
    pub body_bytes: usize,
    /// How long the work takes.
    pub work: Work,
}

/// How long the work of each message takes: random, from a seed and the number of the message.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    pub seed: u64,
    pub min_us: u64,
    pub max_us: u64,
}

/// The text at the beginning of a body.
const BEGIN: &[u8] = b"{\"i\":";
/// The text before the padding.
const PADDING: &[u8] = b",\"p\":\"";

/// A parsed body of the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbered {
    /// The number of the message.
    pub number: u64,
    /// How long its work really took, if noted.
    pub worked: Option<Duration>,
}

impl Plan {
    /// The plan of these arguments.
    pub fn of(args: &BenchArgs) -> Plan {
        Plan {
            streams: args.streams(),
            destinations: args.destinations,
            keys: args.keys,
            ordering: args.ordering,
            body_bytes: args.body_bytes as usize,
            work: Work { seed: args.seed, min_us: args.work_min_us, max_us: args.work_max_us },
        }
    }

    /// The destination of a message.
    pub fn destination_of(&self, number: u64) -> u64 {
        number % self.destinations
    }

    /// The ordering key of a message within its destination.
    pub fn key_of(&self, number: u64) -> u64 {
        number / self.destinations % self.keys
    }

    /// The number of lanes to check. Without ordering there are lanes too, so that counting does not need one lock for
    /// all messages.
    pub fn lanes(&self) -> u64 {
        match self.ordering {
            OrderingArg::Key => self.destinations * self.keys,
            OrderingArg::Destination | OrderingArg::None => self.destinations,
        }
    }

    /// The lane of a message.
    pub fn lane_of(&self, number: u64) -> u64 {
        number % self.lanes()
    }

    /// Appends the body of a message to `out`.
    pub fn write_body(&self, number: u64, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(BEGIN);
        // Writing to memory cannot fail.
        let _ = write!(out, "{number}");
        let around = out.len() - from + b",\"p\":\"\"}".len();
        if let Some(padding) = self.body_bytes.checked_sub(around) {
            out.extend_from_slice(PADDING);
            out.resize(out.len() + padding, b'x');
            out.push(b'"');
        }
        out.push(b'}');
    }
}

/// Parses a body; `None` if it is not a body of the bench.
pub fn numbered(body: &[u8]) -> Option<Numbered> {
    let (number, rest) = leading_number(body.strip_prefix(BEGIN)?)?;
    let worked = rest.strip_prefix(PADDING).and_then(leading_number);
    Some(Numbered { number, worked: worked.map(|(micros, _)| Duration::from_micros(micros)) })
}

fn leading_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let number = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
    Some((number, &text[end..]))
}

/// The body after its work, with the same length. The padding holds the real duration of the
/// work, if there is room.
pub fn worked_body(body: &[u8], worked: Duration) -> Vec<u8> {
    let mut out = body.to_vec();
    let digits = worked.as_micros().to_string();
    let begin =
        BEGIN.len() + body.iter().skip(BEGIN.len()).take_while(|b| b.is_ascii_digit()).count();
    let from = begin + PADDING.len();
    // Keep one character of the padding, to end the digits.
    if out.get(begin..from) == Some(PADDING) && out.len() > from + digits.len() + b"x\"}".len() {
        out[from..from + digits.len()].copy_from_slice(digits.as_bytes());
    }
    out
}

impl Work {
    /// How long a message's work takes.
    pub fn of(&self, number: u64) -> Duration {
        let span = u128::from(self.max_us - self.min_us) + 1;
        let drawn = (u128::from(mixed(self.seed ^ mixed(number))) * span) >> 64;
        Duration::from_micros(self.min_us + drawn as u64)
    }
}

/// SplitMix64: a generator whose nth number any process can compute directly.
fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A part of the run: messages from `base` on, until the count is reached or the time has passed.
#[derive(Debug, Clone, Copy)]
pub struct Phase {
    /// The number of the first message; a multiple of the number of streams.
    pub base: u64,
    /// The most messages.
    pub messages: u64,
    /// Sending ends after this time.
    pub time: Option<Duration>,
    /// Messages per second; `None`: as fast as ingest accepts them.
    pub rate: Option<f64>,
}

impl Phase {
    /// When a message is due, from the start of the phase; `None` after the end.
    pub fn due(&self, number: u64) -> Option<Duration> {
        let index = number - self.base;
        if index >= self.messages {
            return None;
        }
        let due = self.rate.map_or(Duration::ZERO, |rate| {
            Duration::try_from_secs_f64(index as f64 / rate).unwrap_or(Duration::MAX)
        });
        match self.time {
            Some(time) if due >= time => None,
            _ => Some(due),
        }
    }

    /// True if sending is over. If there is a rate, only the schedule decides: skipping late messages would hide that
    /// they are late.
    fn is_over(&self, now: Duration) -> bool {
        self.rate.is_none() && self.time.is_some_and(|time| now >= time)
    }
}

/// The messages of one stream in one phase, in order.
#[derive(Debug, Clone)]
pub struct Turn {
    phase: Phase,
    next: u64,
    step: u64,
}

impl Turn {
    /// The messages of this stream.
    pub fn of(plan: &Plan, phase: Phase, stream: u64) -> Turn {
        Turn { phase, next: phase.base + stream, step: plan.streams }
    }

    /// When the next message is due; `None`: there is none.
    pub fn due(&self, now: Duration) -> Option<Duration> {
        if self.phase.is_over(now) { None } else { self.phase.due(self.next) }
    }

    /// The next message, if it is due.
    pub fn take(&mut self, now: Duration) -> Option<u64> {
        self.due(now).filter(|due| *due <= now)?;
        let number = self.next;
        self.next += self.step;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let work = Work { seed: 1, min_us: 250, max_us: 1250 };
        let ordering = OrderingArg::Key;
        Plan { streams: 4, destinations: 2, keys: 3, ordering, body_bytes: 60, work }
    }

    #[test]
    fn body_has_the_requested_length_and_holds_its_number() {
        let plan = plan();
        for number in [0, 7, 123_456_789] {
            let mut body = Vec::new();
            plan.write_body(number, &mut body);
            assert_eq!(
                (body.len(), numbered(&body)),
                (60, Some(Numbered { number, worked: None }))
            );
            assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
        }
        assert_eq!(numbered(b"{\"i\":"), None);
    }

    #[test]
    fn how_long_the_work_took_is_noted_where_there_is_room() {
        let (mut body, worked) = (Vec::new(), Duration::from_micros(1_250_123));
        plan().write_body(7, &mut body);
        let after = worked_body(&body, worked);
        assert_eq!(
            (after.len(), numbered(&after)),
            (60, Some(Numbered { number: 7, worked: Some(worked) }))
        );
        assert!(serde_json::from_slice::<serde_json::Value>(&after).is_ok());
        assert_eq!(worked_body(b"{\"i\":7}", worked), b"{\"i\":7}");
    }

    #[test]
    fn a_lane_is_a_key_of_a_destination() {
        let plan = plan();
        for number in 0..60 {
            let lane = plan.key_of(number) * 2 + plan.destination_of(number);
            assert_eq!(plan.lane_of(number), lane);
        }
    }

    #[test]
    fn work_is_within_its_range_and_the_same_every_time() {
        let work = plan().work;
        let all: Vec<Duration> = (0..1000).map(|number| work.of(number)).collect();
        assert!(all.iter().all(|one| (250..=1250).contains(&one.as_micros())));
        assert_eq!(all, (0..1000).map(|number| work.of(number)).collect::<Vec<_>>());
        let mean = all.iter().sum::<Duration>().as_micros() / 1000;
        assert!((700..=800).contains(&mean), "{mean}");
    }

    #[test]
    fn a_turn_gives_what_is_due_and_ends() {
        let phase = Phase { base: 8, messages: 10, time: None, rate: Some(1000.0) };
        let mut turn = Turn::of(&plan(), phase, 1);
        let ms = Duration::from_millis;
        assert_eq!((turn.take(ms(0)), turn.take(ms(1)), turn.take(ms(1))), (None, Some(9), None));
        assert_eq!(turn.due(ms(1)), Some(ms(5)));
        assert_eq!(
            (turn.take(ms(50)), turn.take(ms(50)), turn.take(ms(50))),
            (Some(13), Some(17), None)
        );
        assert_eq!(turn.due(ms(50)), None);
    }
}
