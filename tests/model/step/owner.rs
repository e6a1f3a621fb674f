//! What an owner does: own, disown, release, postpone.

use reseq::domain::Sequence;

use super::{Answer, current, given, notice_server};
use crate::model::{
    op::{Given, Known, LaneRequest, Refusal, Reply, Run},
    state::{Lane, Name, Stand, State, Until},
};

pub fn own(state: &mut State, who: usize) -> Answer {
    if state.owner.is_some_and(|(owner, until)| owner != who && until == Until::Future) {
        return Err(Refusal::Owned);
    }
    notice_server(state);
    state.owner = Some((who, Until::Future));
    let quarantine = state.quarantine.unwrap_or(Until::Past);
    Ok(Reply::Owned { epoch: state.epoch, quarantine })
}

pub fn disown(state: &mut State, who: usize) -> Reply {
    let was_mine = state.owner.is_some_and(|(owner, _)| owner == who);
    if was_mine {
        state.owner = None;
    }
    Reply::Disowned(was_mine)
}

/// The fence: only the owner, in the epoch that it knows.
pub fn owned(
    state: &mut State,
    who: usize,
    epoch: u64,
    in_quarantine: bool,
) -> Result<(), Refusal> {
    notice_server(state);
    if state.epoch != epoch {
        return Err(Refusal::StaleEpoch(state.epoch));
    }
    if !in_quarantine && state.quarantine == Some(Until::Future) {
        return Err(Refusal::Quarantine);
    }
    match state.owner {
        Some((owner, Until::Future)) if owner == who => Ok(()),
        _ => Err(Refusal::NotOwner),
    }
}

pub fn release(
    state: &mut State,
    who: usize,
    epoch: u64,
    known: &Known,
    lanes: &[LaneRequest],
) -> Answer {
    owned(state, who, epoch, false)?;
    current(state, known)?;
    let runs = lanes.iter().map(|request| release_lane(state, known.name, request));
    Ok(Reply::Runs(runs.collect()))
}

fn release_lane(state: &mut State, name: Name, request: &LaneRequest) -> Run {
    let Some(destination) = state.destinations.get_mut(name) else { unreachable!("it was found") };
    let settled: Vec<Sequence> = destination
        .lane(request.lane)
        .filter(|(at, message)| *at <= request.settled_to && message.stand == Stand::Ready)
        .map(|(sequence, _)| sequence)
        .collect();
    settled.iter().for_each(|sequence| drop(destination.messages.remove(sequence)));
    let dropped = request.tombstones.min(settled.len() as u64);
    destination.dropped += dropped;
    destination.delivered += settled.len() as u64 - dropped;

    let holds_nothing = request.in_hand == 0;
    let not_before = match request.lane {
        None => state.releasable.get(name).copied(),
        Some(key) => destination.lanes.get(key).copied(),
    };
    let wait = not_before.filter(|_| holds_nothing).unwrap_or(Until::Past);
    if request.want == 0 || wait == Until::Future {
        return Run { wait, messages: Vec::new() };
    }
    let messages: Vec<Given> = destination
        .lane(request.lane)
        .filter(|(sequence, _)| *sequence > request.in_hand)
        .take_while(|(_, message)| message.stand == Stand::Ready)
        .take(request.want)
        .enumerate()
        .map(|(at, (sequence, m))| given(sequence, m, if at == 0 { m.attempts } else { 0 }))
        .collect();
    if messages.is_empty() && holds_nothing {
        let is_last = match request.lane {
            None => true,
            Some(key) => {
                destination.lanes.remove(key);
                destination.lanes.is_empty()
            }
        };
        if is_last {
            state.releasable.remove(name);
        }
    }
    Run { wait, messages }
}

pub fn postpone(
    state: &mut State,
    name: Name,
    lane: Lane,
    sequence: Sequence,
    attempts: u64,
    wait: Until,
) -> Answer {
    let destination = state.destinations.get_mut(name).ok_or(Refusal::WrongHead)?;
    if destination.head(lane).map(|(head, _)| head) != Some(sequence) {
        return Err(Refusal::WrongHead);
    }
    if let Some(message) = destination.messages.get_mut(&sequence) {
        message.attempts = attempts;
    }
    let earliest = match lane {
        None => wait,
        Some(key) => {
            destination.lanes.insert(key, wait);
            destination.lanes.values().copied().min().unwrap_or(wait)
        }
    };
    state.releasable.insert(name, earliest);
    Ok(Reply::Done)
}
