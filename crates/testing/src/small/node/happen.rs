//! The effect of an action on a small world.

use super::{Action, Actor, FORGOTTEN_MAX, Line, Node, World};
use crate::{
    model::{
        op::{Deadline, Op, Refusal, Reply},
        state::{Server, Stand, Until},
        step::step,
    },
    small::actors::{NAME, Sender},
};

impl Node {
    /// Performs the action. Returns the expected answer, and which case occurred.
    pub fn happen(
        &mut self,
        world: &World,
        action: &Action,
    ) -> Result<(Option<Reply>, Vec<&'static str>), String> {
        let mut came_up = Vec::new();
        let waited = self.state.takeover_wait == Some(Until::Future);
        let reply = Node::op_of(action).map(|op| self.ask(&op));
        match (action, &reply) {
            (Action::Call(actor, op), Some(reply)) => {
                if self.line(*actor).unanswered.is_some() {
                    came_up.push("the same call again");
                }
                came_up.extend(self.learn(world, *actor, op, reply));
                came_up.extend(self.vouched(op, waited)?);
                came_up.extend(self.release_after_death(*actor, op, reply));
            }
            (Action::AnswerLost(actor, op), _) => {
                self.errors.lost_answers -= 1;
                self.line(*actor).unanswered = Some(op.clone());
            }
            (Action::Late(_), Some(reply)) => {
                self.errors.late_calls -= 1;
                let is_stale = *reply == Reply::Refused(Refusal::StaleCall);
                came_up.push(if is_stale { "late call refused" } else { "late call answered" });
            }
            (Action::Deliver(at, lane), _) => {
                let owner = self.state.owner;
                if self.senders[*at].1.deliver(*lane, &mut self.journal)? {
                    came_up.push("repeat delivered");
                }
                if owner != Some((*at, Until::Future)) {
                    came_up.push("delivered by who was paused");
                }
            }
            (Action::Dies(actor), _) => self.die(*actor),
            (Action::Operator(op), Some(reply)) => {
                self.operator_has_asked = true;
                if matches!(op, Op::Remake { name, .. } if *name == NAME) {
                    self.journal.remove_all();
                }
                came_up.extend(told(reply));
            }
            (Action::Damage(_), _) => {
                self.errors.damages -= 1;
                came_up.push("a record is lost");
            }
            (Action::Reap(_), Some(Reply::Reaped { leases, .. })) => {
                came_up.push(if *leases > 0 { "lease reaped" } else { "delay reaped" });
            }
            (Action::Pass(deadline), _) => self.pass(world, deadline),
            (Action::Restart, _) => self.errors.restarts -= 1,
            (Action::Forget(calls), _) => {
                self.forget(*calls);
                came_up.push("Redis forgot");
            }
            _ => {}
        }
        self.journal.look(&self.state.destinations[NAME])?;
        if self.journal.may_have_lost && self.state.epoch > 1 {
            came_up.extend(self.stamped_anew());
        }
        if let Some(broken) = self.state.broken_invariant() {
            return Err(broken);
        }
        Ok((reply, came_up))
    }

    fn die(&mut self, actor: Actor) {
        match actor {
            Actor::Sender(_) => self.errors.sender_dies -= 1,
            _ => self.errors.processor_dies -= 1,
        }
        if let Actor::Producer(at) = actor {
            self.producers[at].1.processor.holds.clear();
            *self.line(actor) = Line::default();
            return;
        }
        *self.line(actor) = Line { is_dead: true, ..Line::default() };
    }

    fn ask(&mut self, op: &Op) -> Reply {
        if self.errors.forgets > 0 {
            self.before.push(self.state.clone());
            let surplus = self.before.len().saturating_sub(FORGOTTEN_MAX);
            self.before.drain(..surplus);
        }
        step(&mut self.state, op, false)
    }

    fn line(&mut self, actor: Actor) -> &mut Line {
        match actor {
            Actor::Producer(at) => &mut self.producers[at].0,
            Actor::Processor(at) => &mut self.processors[at].0,
            Actor::Sender(at) => &mut self.senders[at].0,
        }
    }

    /// A sender ended a takeover wait early, perhaps for another sender that now owns the partition.
    fn vouched(&self, op: &Op, waited: bool) -> Result<Option<&'static str>, String> {
        let Op::ResignPartition { vouched: Some(_), .. } = op else { return Ok(None) };
        if !waited || self.state.takeover_wait == Some(Until::Future) {
            return Ok(None);
        }
        // Ignore senders that hold no message: they must ask first, and are refused.
        let sends = |one: &Sender| {
            let is_old = one.epoch.is_some_and(|epoch| epoch < self.state.epoch);
            is_old && !one.hands.is_empty()
        };
        if self.senders.iter().any(|(line, one)| !line.is_dead && sends(one)) {
            return Err("nobody waits, and a sender from before the epoch may still send".into());
        }
        Ok(Some(match self.state.owner {
            Some((_, Until::Future)) => "vouched, and another owns",
            _ => "takeover wait ended by a vouch",
        }))
    }

    fn learn(
        &mut self,
        world: &World,
        actor: Actor,
        op: &Op,
        reply: &Reply,
    ) -> Option<&'static str> {
        let keeps = self.errors.late_calls > 0;
        let line = self.line(actor);
        line.unanswered = None;
        line.answered.push(op.clone());
        let surplus = line.answered.len().saturating_sub(if keeps { 2 } else { 0 });
        line.answered.drain(..surplus);
        match actor {
            Actor::Producer(at) => self.producers[at].1.learn(op, reply, &mut self.journal),
            Actor::Processor(at) => self.processors[at].1.learn(op, reply),
            Actor::Sender(at) => self.senders[at].1.learn(op, reply, world.vouches),
        }
    }

    fn release_after_death(&self, actor: Actor, op: &Op, reply: &Reply) -> Option<&'static str> {
        let Actor::Sender(at) = actor else { return None };
        let (Op::Release { .. }, Reply::Runs { runs, .. }) = (op, reply) else { return None };
        let has_died =
            self.senders.iter().enumerate().any(|(of, (line, _))| of != at && line.is_dead);
        let has_run = runs.iter().any(|run| !run.messages.is_empty());
        (has_died && has_run).then_some("released by the second sender after the first died")
    }

    fn stamped_anew(&self) -> Option<&'static str> {
        let is_again = self.journal.stamped() as u64 > self.state.destinations[NAME].last;
        is_again.then_some("a sequence was stamped again in another epoch")
    }

    /// A deadline passes. An actor with its own clock has stopped by then.
    fn pass(&mut self, world: &World, deadline: &Deadline) {
        match deadline {
            Deadline::Owner => {
                let Some((who, _)) = self.state.owner else { return };
                let (line, sender) = &mut self.senders[who];
                if !line.is_dead {
                    self.errors.paused_senders -= 1;
                    // The effect of a late request on a withdrawal is not promised.
                    if world.operator.is_some() {
                        sender.stop();
                    }
                }
            }
            Deadline::TakeoverWait => {
                let epoch = self.state.epoch;
                for (_, sender) in &mut self.senders {
                    if sender.epoch.is_some_and(|known| known < epoch) {
                        sender.stop();
                    }
                }
            }
            Deadline::Lease { sequence, .. } => {
                let messages = &self.state.destinations[NAME].messages;
                let stand = messages.get(sequence).map(|message| &message.stand);
                let is_held = matches!(stand, Some(Stand::Leased { secret, .. })
                    if self.is_held(*sequence, secret));
                if is_held {
                    self.errors.slow_processors -= 1;
                }
            }
            _ => {}
        }
    }

    /// Redis returns to an earlier state, and is another server.
    fn forget(&mut self, calls: usize) {
        let epoch_max = self.state.epoch_max;
        let at = self.before.len() - calls;
        self.state = self.before[at].clone();
        self.before.truncate(at);
        self.state.epoch_max = epoch_max;
        if self.state.server == Server::This {
            self.state.server = Server::Other;
        }
        self.errors.forgets -= 1;
        self.journal.may_have_lost = true;
        if self.errors.forgets == 0 {
            self.before.clear();
        }
    }

    /// At the end: why the world is not settled.
    pub fn unsettled(&self) -> Option<String> {
        let pending: Vec<_> = self.state.destinations[NAME].messages.iter().collect();
        if !pending.is_empty() {
            return Some(format!("nobody goes on, and there are still {pending:?}"));
        }
        self.journal.missing().map(|position| format!("{position:?} was promised and is gone"))
    }
}

fn told(reply: &Reply) -> Option<&'static str> {
    use store::Withdrawn;
    match reply {
        Reply::Withdrawn(outcomes) => Some(match outcomes.first()? {
            Withdrawn::Done => "withdrawn at once",
            Withdrawn::Withdrawing => "ordered to withdraw",
            _ => "withdrawn too late",
        }),
        Reply::Retried { .. } => Some("retried in place"),
        Reply::Defined { created: true, .. } => Some("removed and made again"),
        _ => None,
    }
}
