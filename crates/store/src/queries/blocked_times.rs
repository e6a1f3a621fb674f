//! How long the heads of lanes have waited, by cause. The pod that samples the lanes of a partition counts this, in
//! memory only.
//!
//! If a lane has the same head in two samples, the whole time between them counts for the cause in the second sample.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::cause::Cause;
use domain::{DestinationName, Position};

/// Times by cause.
pub type Causes = BTreeMap<Cause, Duration>;

/// The key of a lane; `None` if the destination is one lane.
type LaneKey = Option<String>;

/// The waiting times of the heads that this pod samples now.
#[derive(Debug, Default)]
pub struct BlockedTimes(Mutex<HashMap<DestinationName, Sampled>>);

/// The heads of one destination in its last sample.
#[derive(Debug)]
struct Sampled {
    at: Instant,
    heads: HashMap<LaneKey, (Position, Causes)>,
}

impl BlockedTimes {
    /// Records a sample of a destination's heads. Returns by how much the time of each cause has grown.
    pub fn note(
        &self,
        name: &DestinationName,
        now: Instant,
        heads: impl IntoIterator<Item = (LaneKey, Position, Cause)>,
    ) -> Causes {
        let mut all = self.0.lock();
        let mut before = all.remove(name);
        let time = before.as_ref().map_or(Duration::ZERO, |before| now.duration_since(before.at));
        let mut grown = Causes::new();
        let heads = heads.into_iter().map(|(lane, position, cause)| {
            let known = before.as_mut().and_then(|before| before.heads.remove(&lane));
            let mut causes =
                known.filter(|(known, _)| *known == position).map(|(_, causes)| causes);
            if let Some(causes) = &mut causes {
                *causes.entry(cause).or_default() += time;
                *grown.entry(cause).or_default() += time;
            }
            (lane, (position, causes.unwrap_or_default()))
        });
        let heads = heads.collect();
        all.insert(name.clone(), Sampled { at: now, heads });
        grown
    }

    /// Records that Redis did not answer: all lanes of the last sample wait for Redis.
    pub fn note_no_answer(&self, name: &DestinationName, now: Instant) -> Causes {
        let mut all = self.0.lock();
        let Some(sampled) = all.get_mut(name) else { return Causes::new() };
        let time = now.duration_since(std::mem::replace(&mut sampled.at, now));
        for (_, causes) in sampled.heads.values_mut() {
            *causes.entry(Cause::Redis).or_default() += time;
        }
        let lanes = u32::try_from(sampled.heads.len()).unwrap_or(u32::MAX);
        Causes::from([(Cause::Redis, time * lanes)])
    }

    /// Call this when no message is pending any more, or another pod samples this destination.
    pub fn forget(&self, name: &DestinationName) {
        self.0.lock().remove(name);
    }

    /// How long this head has waited, by cause. `None` if this pod does not sample it.
    pub fn of(&self, name: &DestinationName, lane: &LaneKey, position: Position) -> Option<Causes> {
        let all = self.0.lock();
        let (head, causes) = all.get(name)?.heads.get(lane)?;
        (*head == position).then(|| causes.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sequence: u64) -> Position {
        Position { epoch: 1, sequence }
    }

    #[test]
    fn the_same_head_in_two_samples_counts_for_the_cause_at_the_end() {
        let (times, name) = (BlockedTimes::default(), "erp".parse().unwrap());
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let sample = |seconds: u32, heads: &[(&str, u64, Cause)]| {
            let heads = heads
                .iter()
                .map(|(key, number, cause)| (Some((*key).to_owned()), at(*number), *cause));
            times.note(&name, begin + seconds * second, heads)
        };
        assert_eq!(sample(0, &[("a", 1, Cause::Halted), ("b", 2, Cause::Backoff)]), Causes::new());
        let grown = sample(2, &[("a", 1, Cause::Halted), ("b", 2, Cause::Delivering)]);
        let expected = [(Cause::Halted, 2 * second), (Cause::Delivering, 2 * second)];
        assert_eq!(grown, Causes::from(expected));
        // Lane `b` has another head.
        let grown = sample(5, &[("a", 1, Cause::Processing), ("b", 4, Cause::Backoff)]);
        assert_eq!(grown, Causes::from([(Cause::Processing, 3 * second)]));
        let of_head = [(Cause::Halted, 2 * second), (Cause::Processing, 3 * second)];
        let lane = Some("a".to_owned());
        assert_eq!(times.of(&name, &lane, at(1)), Some(Causes::from(of_head)));
        assert_eq!(times.of(&name, &lane, at(2)), None);
        times.forget(&name);
        assert_eq!(times.of(&name, &lane, at(1)), None);
    }

    #[test]
    fn without_an_answer_all_known_lanes_wait_for_redis() {
        let (times, name) = (BlockedTimes::default(), "erp".parse().unwrap());
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        assert_eq!(times.note_no_answer(&name, begin), Causes::new());
        let lanes = ["a", "b"].map(|key| (Some(key.to_owned()), at(1), Cause::Processing));
        times.note(&name, begin, lanes.clone());
        let grown = times.note_no_answer(&name, begin + 3 * second);
        assert_eq!(grown, Causes::from([(Cause::Redis, 6 * second)]));
        let grown = times.note(&name, begin + 4 * second, lanes);
        assert_eq!(grown, Causes::from([(Cause::Processing, 2 * second)]));
    }
}
