//! Tries the interleavings of a small world on the real scripts: depth first, restoring saved
//! keyspaces.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::{
    model::{
        op::Reply,
        real::{Kept, Real},
        snapshot::{difference, of_model, of_real},
        state::State,
    },
    small::node::{Action, Node, World},
    small::survey::{Survey, shown},
    small::{Counts, actors::NAME},
};

/// The part of the interleavings to try: runs of [`RUN`] neighbours, `at` of every `of` runs.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    pub at: u128,
    pub of: u128,
}

/// The length of a run. Neighbours share most of their calls.
const RUN: u128 = 16;

impl Share {
    /// True if one of the interleavings from `first` on must be tried.
    fn has_any(self, first: u128, count: u128) -> bool {
        let (from, last) = (first / RUN, (first + count.max(1) - 1) / RUN);
        let next = from + (self.of + self.at - from % self.of) % self.of;
        next <= last
    }
}

/// The interleavings tried.
#[derive(Debug, Default)]
pub struct Done {
    pub tried: u128,
    pub counts: Counts,
}

/// A state on the path, and its remaining actions.
struct Frame {
    node: Node,
    actions: Vec<Action>,
    next: usize,
    kept: Option<Kept>,
    /// The frames before the last calls, to which Redis returns if it loses those calls.
    before: Vec<usize>,
}

struct Explorer<'a> {
    world: &'a World,
    survey: &'a Survey,
    real: &'a mut Real,
    frames: Vec<Frame>,
    path: Vec<Action>,
    /// The frame whose state Redis has.
    at: Option<usize>,
    /// The digest of Redis in each state of the model that was fully compared.
    compared: HashMap<u64, String>,
    calls: &'a AtomicU64,
    done: Done,
}

/// Tries the interleavings of a share.
pub async fn explore(
    world: &World,
    survey: &Survey,
    real: &mut Real,
    share: Share,
    calls: &AtomicU64,
) -> Result<Done, String> {
    real.reset().await;
    let (first, prologue) = Node::first(world);
    for op in &prologue {
        real.apply(op, false, &first.state).await;
    }
    let (frames, path, at) = (Vec::new(), Vec::new(), Some(0));
    let (compared, done) = (HashMap::new(), Done::default());
    let mut explorer = Explorer { world, survey, real, frames, path, at, compared, calls, done };
    let result = explorer.run(first, share).await;
    result.map_err(|broken| format!("{broken}\nafter\n{}", shown(&explorer.path)))?;
    Ok(explorer.done)
}

impl Explorer<'_> {
    async fn run(&mut self, first: Node, share: Share) -> Result<(), String> {
        self.compare(&first.state, true).await?;
        self.enter(first, Vec::new()).await;
        let mut index = 0;
        while let Some(frame) = self.frames.last_mut() {
            let Some(action) = frame.actions.get(frame.next).cloned() else {
                self.frames.pop();
                self.path.pop();
                continue;
            };
            frame.next += 1;
            let mut node = frame.node.clone();
            self.path.push(action.clone());
            let (expected, came_up) = node.happen(self.world, &action)?;
            let ways = self.survey.ways_from(&node);
            if !share.has_any(index, ways) {
                index += ways;
                self.path.pop();
                continue;
            }
            let before = self.carry_out(&action, expected, &node).await?;
            for what in came_up {
                *self.done.counts.entry(what).or_default() += 1;
            }
            let is_call = Node::op_of(&action).is_some() || matches!(action, Action::Forget(_));
            if node.actions(self.world).is_empty() {
                self.compare(&node.state, true).await?;
                if let Some(unsettled) = node.unsettled() {
                    return Err(unsettled);
                }
                self.done.tried += 1;
                index += 1;
                self.at = None;
                self.path.pop();
            } else {
                if is_call {
                    self.compare(&node.state, false).await?;
                }
                self.enter(node, before).await;
            }
        }
        Ok(())
    }

    /// Continues from the current state of Redis.
    async fn enter(&mut self, node: Node, before: Vec<usize>) {
        let actions = node.actions(self.world);
        let at = self.frames.len();
        let is_needed = actions.len() > 1 || self.world.errors.forgets > 0;
        let kept = if is_needed { Some(self.real.save(at + 1).await) } else { None };
        self.at = Some(at);
        self.frames.push(Frame { node, actions, next: 0, kept, before });
    }

    /// Runs an action on Redis. Returns the frames before the last calls.
    async fn carry_out(
        &mut self,
        action: &Action,
        expected: Option<Reply>,
        node: &Node,
    ) -> Result<Vec<usize>, String> {
        let last = self.frames.len() - 1;
        if self.at != Some(last) {
            let kept = self.frames[last].kept.as_ref().expect("more than one way leads on");
            self.real.restore(last + 1, kept).await;
        }
        self.at = None;
        let mut before = self.frames[last].before.clone();
        if let Action::Forget(calls) = action {
            before.truncate(before.len() + 1 - calls);
            let at = before.pop().expect("as many calls were made");
            let kept = self.frames[at].kept.as_ref().expect("it is kept to be forgotten");
            self.real.forget(at + 1, kept).await;
        }
        let Some(op) = Node::op_of(action) else { return Ok(before) };
        self.calls.fetch_add(1, Relaxed);
        let found = self.real.apply(&op, false, &node.state).await;
        if Some(&found) != expected.as_ref() {
            return Err(format!("answered {found:?} instead of {expected:?}"));
        }
        before.push(last);
        Ok(before)
    }

    /// Compares the whole state if the model's state is new, and at every end. In other cases,
    /// compares only if the digest differs from the earlier one.
    async fn compare(&mut self, state: &State, is_whole: bool) -> Result<(), String> {
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        let digest = self.real.plain_digest().await;
        let known = self.compared.get(&hasher.finish());
        if !is_whole && known == Some(&digest) {
            return Ok(());
        }
        let (names, dump) = (BTreeSet::from([NAME]), self.real.dump().await);
        let found = of_real(self.real, &dump, &names).await;
        if let Some(lines) = difference(&of_model(state, &names), &found) {
            return Err(lines);
        }
        self.compared.insert(hasher.finish(), digest);
        Ok(())
    }
}
