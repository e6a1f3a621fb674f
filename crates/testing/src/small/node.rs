//! A small world, and one of its states: the state of Redis, the memory of each actor, and the
//! faults that may still occur.

mod happen;

use std::hash::{DefaultHasher, Hash, Hasher};

use domain::{Sequence, Tombstone};

use crate::{
    model::{
        op::{Arrival, Deadline, Op},
        state::{Damage, Definition, Lane, Message, Server, Stand, State, Until},
        step::step,
    },
    small::actors::{NAME, Next, OTHER, Processor, Producer, Sender, known},
    small::journal::Journal,
};

/// The components of a small world.
#[derive(Debug, Clone)]
pub struct World {
    pub name: &'static str,
    pub definition: Definition,
    /// The batches of each producer.
    pub producers: Vec<Vec<Vec<Arrival>>>,
    pub processors: usize,
    pub senders: usize,
    /// Pods process messages as they arrive, if they may.
    pub on_arrival: bool,
    /// The most messages of a claim, and of a run.
    pub claim: usize,
    pub limit: usize,
    /// The first message fails once: with this wait, or for the last time.
    pub fails: Option<Option<Until>>,
    /// It does not fail: its processor asks for it later.
    pub asks_later: bool,
    /// The first delivery of the first message is refused: with this wait, or halted.
    pub refuses: Option<Option<Until>>,
    /// The transform drops this message.
    pub drops: Option<Sequence>,
    /// The first processor requeues its first claim.
    pub hands_back: bool,
    /// Messages that left a lane are settled before the next is delivered.
    pub settles_each: bool,
    /// Each sender tries once to acquire a partition that another sender owns.
    pub covets: bool,
    /// A sender that learns of another epoch vouches for it.
    pub vouches: bool,
    /// An operator's request, once.
    pub operator: Option<Operator>,
    pub errors: Troubles,
    /// Cases that must occur.
    pub wanted: &'static [&'static str],
}

#[derive(Debug, Clone, Copy)]
pub enum Operator {
    Withdraw(Tombstone, Sequence),
    Retry,
    /// Removes the destination with all pending messages, and creates it again.
    Remake,
    /// Does the same with another destination of the partition.
    RemakeOther,
    /// Changes the definition while messages are pending.
    Redefine,
    /// Cancels a damaged message once it is halted.
    CancelDamaged,
}

/// How many faults of each kind may still occur.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Troubles {
    /// A processor dies.
    pub processor_dies: u8,
    pub sender_dies: u8,
    /// A call runs, but its answer is lost: it is sent again.
    pub lost_answers: u8,
    /// An answered call arrives once more.
    pub late_calls: u8,
    /// The lease of a live processor expires.
    pub slow_processors: u8,
    /// The lease of a live sender expires; it continues regardless.
    pub paused_senders: u8,
    /// The record of a message is lost.
    pub damages: u8,
    /// Redis becomes another server.
    pub restarts: u8,
    /// Redis becomes another server, and has lost the last calls.
    pub forgets: u8,
}

/// An actor, which makes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Actor {
    Producer(usize),
    Processor(usize),
    Sender(usize),
}

/// A possible next action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    Call(Actor, Op),
    AnswerLost(Actor, Op),
    /// A call arrives again. No actor waits for its answer.
    Late(Op),
    Deliver(usize, Lane),
    Dies(Actor),
    Operator(Op),
    Damage(Op),
    Reap(Op),
    Pass(Deadline),
    Restart,
    /// Redis loses this many calls.
    Forget(usize),
}

/// The state of an actor's connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Line {
    is_dead: bool,
    /// A call without an answer.
    unanswered: Option<Op>,
    /// The last two calls that were answered.
    answered: Vec<Op>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    pub state: State,
    pub journal: Journal,
    producers: Vec<(Line, Producer)>,
    processors: Vec<(Line, Processor)>,
    senders: Vec<(Line, Sender)>,
    operator_has_asked: bool,
    errors: Troubles,
    /// The state of Redis before each of the last calls, if Redis can lose these calls.
    before: Vec<State>,
}

/// The most calls that can be lost.
const FORGOTTEN_MAX: usize = 3;

impl Node {
    /// The initial node, and the operations that create it.
    pub fn first(world: &World) -> (Node, Vec<Op>) {
        let mut state = State::default();
        let definition = world.definition;
        let mut prologue = vec![Op::Define { name: NAME, definition }];
        if matches!(world.operator, Some(Operator::RemakeOther)) {
            prologue.push(Op::Define { name: OTHER, definition });
        }
        for op in &prologue {
            step(&mut state, op, false);
        }
        let all_know = Some(known(&state));
        let producer = |batches: &Vec<_>| Producer {
            known: all_know,
            batches: batches.clone(),
            calls: 0,
            epoch: 1,
            processor: Processor { known: all_know, ..Processor::default() },
        };
        let producers = world.producers.iter().map(|batches| (Line::default(), producer(batches)));
        let node = Node {
            producers: producers.collect(),
            processors: vec![
                (
                    Line::default(),
                    Processor { known: all_know, ..Processor::default() }
                );
                world.processors
            ],
            senders: vec![
                (Line::default(), Sender { known: all_know, ..Sender::default() });
                world.senders
            ],
            journal: Journal::default(),
            operator_has_asked: world.operator.is_none(),
            errors: world.errors,
            before: Vec::new(),
            state,
        };
        (node, prologue)
    }

    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// All possible next actions; none once everything has settled.
    pub fn actions(&self, world: &World) -> Vec<Action> {
        let (mut all, mut errors) = (Vec::new(), Vec::new());
        for (actor, line, next) in self.nexts(world) {
            if line.is_dead {
                continue;
            }
            let next = line.unanswered.clone().map(Next::Call).or(next);
            match (next, actor) {
                (Some(Next::Call(op)), _) => {
                    if self.errors.lost_answers > 0 && line.unanswered.is_none() {
                        errors.push(Action::AnswerLost(actor, op.clone()));
                    }
                    all.push(Action::Call(actor, op));
                }
                (Some(Next::Deliver(lane)), Actor::Sender(at)) => {
                    all.push(Action::Deliver(at, lane))
                }
                _ => {}
            }
            let may_die = match actor {
                // Its producer goes on to another pod.
                Actor::Producer(at) if self.producers[at].1.processor.holds.is_empty() => 0,
                Actor::Producer(_) => self.errors.processor_dies,
                Actor::Processor(_) => self.errors.processor_dies,
                Actor::Sender(_) => self.errors.sender_dies,
            };
            if may_die > 0 {
                errors.push(Action::Dies(actor));
            }
            if self.errors.late_calls > 0 {
                errors.extend(line.answered.iter().cloned().map(Action::Late));
            }
        }
        all.extend(self.operator(world));
        self.deadlines(&mut all, &mut errors);
        let is_over = |(_, message): (_, &Message)| {
            matches!(
                message.stand,
                Stand::Leased { until: Until::Past, .. } | Stand::Delayed { until: Until::Past }
            )
        };
        let rest_is_over = self.state.destinations[NAME].rest == Some(Until::Past);
        if rest_is_over || self.state.destinations[NAME].messages.iter().any(is_over) {
            all.push(Action::Reap(Op::Reap { known: known(&self.state) }));
        }
        if self.errors.damages > 0 {
            let pending = self.state.destinations[NAME].messages.iter();
            let whole = pending.filter(|(_, message)| message.tombstone.is_none());
            errors.extend(whole.map(|(&sequence, _)| {
                let damage = Damage::Missing;
                Action::Damage(Op::Damage { name: NAME, sequence, damage })
            }));
        }
        if self.errors.restarts > 0 && self.state.server == Server::This {
            errors.push(Action::Restart);
        }
        if self.errors.forgets > 0 {
            errors.extend((1..=self.before.len()).map(Action::Forget));
        }
        // Once everything has settled, faults have no effect.
        if !all.is_empty() {
            all.extend(errors);
        }
        all
    }

    fn nexts(&self, world: &World) -> Vec<(Actor, &Line, Option<Next>)> {
        let state = &self.state;
        let call = |op: Option<Op>| op.map(Next::Call);
        let producers = self.producers.iter().enumerate().map(|(at, (line, producer))| {
            (Actor::Producer(at), line, call(producer.next(at, world, state)))
        });
        let processors = self.processors.iter().enumerate().map(|(at, (line, processor))| {
            (Actor::Processor(at), line, call(processor.next(at, world, state)))
        });
        let senders =
            self.senders.iter().enumerate().map(|(at, (line, sender))| {
                (Actor::Sender(at), line, sender.next(at, world, state))
            });
        producers.chain(processors).chain(senders).collect()
    }

    fn operator(&self, world: &World) -> Option<Action> {
        let destination = &self.state.destinations[NAME];
        let known = known(&self.state);
        if self.operator_has_asked {
            return None;
        }
        Some(Action::Operator(match world.operator? {
            Operator::Withdraw(how, sequence) => {
                if sequence > destination.last {
                    return None;
                }
                let key = destination.messages.get(&sequence).and_then(|message| message.key);
                let messages = vec![(world.definition.lane_of(sequence, key), sequence)];
                Op::Withdraw { who: None, known, how, failed: None, messages }
            }
            Operator::Remake => Op::Remake { name: NAME, definition: world.definition },
            Operator::RemakeOther => Op::Remake { name: OTHER, definition: world.definition },
            Operator::Redefine => {
                let definition = Definition { log_max: 2, ..world.definition };
                Op::Define { name: NAME, definition }
            }
            Operator::CancelDamaged => {
                let mut halted = destination.messages.iter();
                let (sequence, message) = halted.find(|(_, m)| m.is_halted() && m.is_damaged())?;
                let messages = vec![(destination.lane_of(*sequence, message), *sequence)];
                let how = Tombstone::Cancelled;
                Op::Withdraw { who: None, known, how, failed: None, messages }
            }
            Operator::Retry => {
                let mut halted = destination.messages.iter().filter(|(_, m)| m.is_halted());
                let (sequence, message) = halted.next()?;
                let lane = destination.lane_of(*sequence, message);
                Op::Retry { known, lane, sequence: *sequence, repaired: None }
            }
        }))
    }

    /// Adds the deadlines that no actor extends to `all`, and, as faults, other deadlines to `errors`.
    fn deadlines(&self, all: &mut Vec<Action>, errors: &mut Vec<Action>) {
        let name = NAME;
        for (&sequence, message) in &self.state.destinations[NAME].messages {
            match &message.stand {
                Stand::Delayed { until: Until::Future } => {
                    all.push(Action::Pass(Deadline::Delay { name, sequence }));
                }
                Stand::Leased { secret, until: Until::Future } => {
                    let end = Action::Pass(Deadline::Lease { name, sequence });
                    let is_held = self.is_held(sequence, secret);
                    if !is_held {
                        all.push(end);
                    } else if self.errors.slow_processors > 0 {
                        errors.push(end);
                    }
                }
                _ => {}
            }
        }
        if let Some((who, Until::Future)) = self.state.owner {
            if self.senders[who].0.is_dead {
                all.push(Action::Pass(Deadline::Owner));
            } else if self.errors.paused_senders > 0 {
                errors.push(Action::Pass(Deadline::Owner));
            }
        }
        if self.state.takeover_wait == Some(Until::Future) {
            all.push(Action::Pass(Deadline::TakeoverWait));
        }
        let destination = &self.state.destinations[NAME];
        if destination.rest == Some(Until::Future) {
            all.push(Action::Pass(Deadline::Rate { name }));
        }
        let mut hints = destination.lanes.values().chain(self.state.releasable.get(NAME));
        if hints.any(|hint| !hint.is_due()) {
            all.push(Action::Pass(Deadline::Postponed { name }));
        }
    }

    /// True if a live processor holds the message under this secret, or will once it gets its
    /// answer.
    fn is_held(&self, sequence: Sequence, secret: &str) -> bool {
        let pods = self.producers.iter().map(|(line, producer)| (line, &producer.processor));
        let processors = self.processors.iter().map(|(line, processor)| (line, processor));
        processors.chain(pods).any(|(line, processor)| {
            let claims = line.unanswered.as_ref().and_then(Op::call);
            let has_claimed = claims.is_some_and(|call| call.secret() == secret);
            !line.is_dead && (has_claimed || processor.holds(sequence, secret))
        })
    }

    /// The operation for an action, if it is a call.
    pub fn op_of(action: &Action) -> Option<Op> {
        match action {
            Action::Call(_, op)
            | Action::AnswerLost(_, op)
            | Action::Late(op)
            | Action::Operator(op)
            | Action::Damage(op)
            | Action::Reap(op) => Some(op.clone()),
            Action::Pass(deadline) => Some(Op::Pass(deadline.clone())),
            Action::Restart => Some(Op::Restart),
            Action::Forget(_) | Action::Deliver(..) | Action::Dies(_) => None,
        }
    }
}
