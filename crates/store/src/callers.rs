//! Callers: the call sequences of this pod. A caller makes one call at a time. A call at a partition takes an idle
//! caller, so there are only as many callers as calls were in flight at the same time, however many destinations the
//! partition has.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{CALL_US_MAX, CallSequence, Store};
use domain::DestinationName;

/// The callers that make no call now, by partition. The caller of the last call is at the end.
#[derive(Debug, Default)]
pub(super) struct Callers(Mutex<HashMap<u16, Vec<Idle>>>);

#[derive(Debug)]
struct Idle {
    caller: CallSequence,
    /// Set if the last call was given up: its destination, and until when the call may still run. The next call for
    /// that destination takes this caller: once that call has run, Redis refuses the one that was given up. Until then,
    /// no other call takes this caller.
    given_up: Option<(DestinationName, Instant)>,
}

impl Callers {
    fn take(&self, partition: u16, of: Option<&DestinationName>) -> Option<CallSequence> {
        let mut idle = self.0.lock();
        let (idle, now) = (idle.get_mut(&partition)?, Instant::now());
        let is_its_own =
            |one: &Idle| one.given_up.as_ref().is_some_and(|(name, _)| Some(name) == of);
        let is_free = |one: &Idle| one.given_up.as_ref().is_none_or(|(_, until)| *until < now);
        let at = idle.iter().position(is_its_own).or_else(|| idle.iter().rposition(is_free))?;
        Some(idle.remove(at).caller)
    }
}

impl Store {
    /// Takes a caller for the next calls at this partition. Put it back after them. `of` is the destination of the
    /// calls, if calls for it may be given up.
    pub fn take_caller(&self, partition: u16, of: Option<&DestinationName>) -> CallSequence {
        let idle = self.inner.callers.take(partition, of);
        idle.unwrap_or_else(|| self.new_call_sequence("caller"))
    }

    /// Puts a caller back. `given_up` is the destination of its last call, if that call was given up.
    pub fn put_back_caller(
        &self,
        partition: u16,
        caller: CallSequence,
        given_up: Option<&DestinationName>,
    ) {
        // Redis refuses a call if its number is further ahead than this (lua/include/call.lua).
        let until = Instant::now() + 2 * Duration::from_micros(CALL_US_MAX);
        let given_up = given_up.map(|name| (name.clone(), until));
        let mut idle = self.inner.callers.0.lock();
        idle.entry(partition).or_default().push(Idle { caller, given_up });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_up_caller_serves_its_destination_until_call_is_late() {
        let [erp, crm] = ["erp", "crm"].map(|name| name.parse::<DestinationName>().unwrap());
        let callers = Callers::default();
        let idle = |name: &str, given_up: Option<Instant>| Idle {
            caller: CallSequence { name: name.into(), current: Mutex::default() },
            given_up: given_up.map(|until| (erp.clone(), until)),
        };
        let taken = |of| callers.take(7, of).map(|caller| caller.name);
        let put = |one| callers.0.lock().entry(7).or_default().push(one);
        let later = Instant::now() + Duration::from_secs(60);
        put(idle("a", None));
        put(idle("b", None));
        put(idle("c", Some(later)));
        assert_eq!(callers.take(6, Some(&erp)).map(|caller| caller.name), None);
        assert_eq!(taken(Some(&crm)).as_deref(), Some("b"), "the last one first");
        assert_eq!(taken(Some(&erp)).as_deref(), Some("c"));
        assert_eq!(taken(Some(&erp)).as_deref(), Some("a"));
        put(idle("c", Some(later)));
        assert_eq!((taken(Some(&crm)), taken(None)), (None, None));
        put(idle("d", Some(Instant::now())));
        assert_eq!(taken(None).as_deref(), Some("d"), "its call cannot run any more");
    }
}
