//! Wakes the task of a destination when it may have work, and reports when the task has ended, so
//! that the caller starts another.

use parking_lot::Mutex;
use tokio::sync::Notify;

use store::HandOver;

/// Pokes one task. No poke is lost: a poked task does not end before it takes the poke.
#[derive(Default)]
pub(crate) struct Poke {
    state: Mutex<State>,
    notify: Notify,
}

#[derive(Default)]
struct State {
    has_ended: bool,
    /// True if the task has not taken the last poke yet.
    is_poked: bool,
    /// The content of the next poke.
    next: Poked,
}

/// The content of a poke.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Poked {
    /// The message that may leave now.
    pub(super) handed: Option<HandOver>,
    /// True if there may be other work.
    pub(super) has_more: bool,
    /// True if pokes may have been missed before this one.
    pub(super) has_gap: bool,
}

impl Poke {
    /// False if the task has ended.
    pub(crate) fn poke(&self, handed: Option<HandOver>) -> bool {
        let mut state = self.state.lock();
        if state.has_ended {
            return false;
        }
        state.is_poked = true;
        state.next.has_more |= handed.is_none() || state.next.handed.is_some();
        state.next.handed = handed.or(state.next.handed.take());
        self.notify.notify_one();
        true
    }

    /// Notes that pokes may have been missed. Does not wake the task: a scan finds destinations with work.
    pub(crate) fn note_gap(&self) {
        self.state.lock().next.has_gap = true;
    }

    /// Resolves when the task was poked. The task must look for work after this resolves. A poke
    /// during that search counts for the next call.
    pub(super) async fn poked(&self) -> Poked {
        loop {
            self.notify.notified().await;
            let mut state = self.state.lock();
            if std::mem::take(&mut state.is_poked) {
                return std::mem::take(&mut state.next);
            }
        }
    }

    /// Ends the poking, unless a poke arrived meanwhile. True if it has ended. Only the task calls this.
    pub(super) fn end(&self) -> bool {
        let mut state = self.state.lock();
        state.has_ended |= !state.is_poked;
        state.has_ended
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::FutureExt;

    use super::*;

    #[test]
    fn poked_task_does_not_end_and_ended_task_is_not_poked() {
        let poke = Poke::default();
        assert!(poke.poke(None));
        assert!(!poke.end());
        assert!(poke.poked().now_or_never().is_some());
        assert!(poke.poked().now_or_never().is_none());
        assert!(poke.end());
        assert!(!poke.poke(None));
    }

    #[test]
    fn poke_tells_last_handed_over_message_and_if_there_was_more() {
        let poke = Poke::default();
        let handed =
            |sequence| Some(HandOver { version: 1, epoch: 1, sequence, record: Bytes::new() });
        let told = |pokes: &[Option<HandOver>]| {
            pokes.iter().for_each(|handed| assert!(poke.poke(handed.clone())));
            let Poked { handed, has_more, .. } = poke.poked().now_or_never().unwrap();
            (handed.map(|handed| handed.sequence), has_more)
        };
        assert_eq!(told(&[handed(5)]), (Some(5), false));
        assert_eq!(told(&[None]), (None, true));
        assert_eq!(told(&[handed(5), None]), (Some(5), true));
        assert_eq!(told(&[None, handed(5)]), (Some(5), true));
        assert_eq!(told(&[handed(5), handed(6)]), (Some(6), true));
    }

    #[test]
    fn a_gap_is_told_once_with_the_next_poke() {
        let poke = Poke::default();
        poke.note_gap();
        assert!(poke.poked().now_or_never().is_none());
        let has_gap = || {
            assert!(poke.poke(None));
            poke.poked().now_or_never().unwrap().has_gap
        };
        assert_eq!((has_gap(), has_gap()), (true, false));
    }
}
