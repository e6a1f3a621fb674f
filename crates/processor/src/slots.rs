//! The slots of this processor. Claims, messages that arrived at this pod, and attempts use them.

use std::sync::Arc;

use parking_lot::Mutex;

use super::fair_queue::FairQueue;
use domain::{Destination, DestinationName, TransformKind};
use shares::Shares;

/// The most messages in slots of the class [`Class::Calling`].
const CALLING_MAX: usize = 4096;
/// At most this many destinations, the next in turn, are checked for messages that wait for slots.
pub(super) const OTHERS_MAX: usize = 16;

/// What a transform does while it uses a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// The transform runs on this machine.
    Working,
    /// The transform waits for another service.
    Calling,
}

impl Class {
    pub(super) fn of(destination: &Destination) -> Class {
        match destination.transform.kind {
            TransformKind::Http => Class::Calling,
            _ => Class::Working,
        }
    }
}

/// The slots of a class.
pub(super) struct OfClass {
    pub(super) shares: Shares<DestinationName>,
    /// Destinations that may have waiting messages, in the order of their turns.
    pub(super) queue: FairQueue,
    /// The number of slots reserved for messages that are being stamped.
    pub(super) reserved: usize,
}

impl OfClass {
    /// Reserves slots for messages that are being stamped, if no destination waits for slots. This destination may hold
    /// at most `most` slots. At most a quarter of all slots can be reserved: a server that does not answer must not
    /// keep all slots.
    pub(super) fn reserve(&mut self, destination: &Destination, most: usize, slots: usize) -> bool {
        let quarter = self.shares.all().div_ceil(4);
        let room = self.shares.weighted_room(&destination.name, destination.weight, false, false);
        let is_room = slots
            <= most.saturating_sub(self.shares.taken_by(&destination.name)).min(room)
            && self.reserved + slots <= quarter
            && self.queue.is_empty();
        if is_room {
            self.shares.take(&destination.name, slots);
            self.reserved += slots;
        }
        is_room
    }

    /// Called when the messages for these reserved slots were stamped, and `begun` of them begin.
    pub(super) fn stamped(&mut self, destination: &Destination, slots: usize, begun: usize) {
        self.reserved -= slots;
        self.shares.give_back(&destination.name, slots.saturating_sub(begun));
        if begun > 0 {
            self.queue.arrived(destination, begun);
        }
    }

    pub(super) fn took(&mut self, destination: &Destination, slots: usize) {
        self.queue.took(destination, slots);
        self.shares.take(&destination.name, slots);
    }

    /// Frees slots that were reserved but not filled.
    pub(super) fn unused(&mut self, destination: &Destination, slots: usize) {
        self.queue.gave_back(destination, slots);
        self.shares.give_back(&destination.name, slots);
    }
}

/// All slots, by [`Class`]. Cheap to clone.
#[derive(Clone)]
pub(super) struct Slots(Arc<[Mutex<OfClass>; 2]>);

impl Slots {
    /// This many slots for transforms that run on this machine.
    pub(super) fn new(working: usize) -> Slots {
        let of_class = |all| {
            Mutex::new(OfClass {
                shares: Shares::new(all, all),
                queue: FairQueue::default(),
                reserved: 0,
            })
        };
        Slots(Arc::new([working, CALLING_MAX].map(of_class)))
    }

    pub(super) fn of(&self, class: Class) -> &Mutex<OfClass> {
        &self.0[class as usize]
    }

    /// Reports how many slots are in use or reserved.
    pub(super) fn report(&self) {
        for (of, slots) in ["working", "calling"].into_iter().zip(self.0.iter()) {
            let shares = &slots.lock().shares;
            telemetry::slots(of, shares.taken(), shares.all());
        }
    }

    /// True if a slot of any class is free.
    pub(super) fn any_free(&self) -> bool {
        self.0.iter().any(|of| of.lock().shares.free() > 0)
    }
}
