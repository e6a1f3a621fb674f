//! Batches of script calls. A *block* is the call of one script by one caller, with its own keys, arguments and
//! answer. One call to Redis can carry the blocks of many callers: the fixed cost of a call (a turn of the event
//! loop, a read, an answer) is much higher than the cost of a small block. While a call is in flight, blocks of other
//! callers wait, and the next call carries them together. If no call is in flight, no block waits.
//!
//! Blocks can share a call if their scripts are parts of the same composed script, and if one call may hold all their
//! keys: in a cluster, keys of the same slot; otherwise any keys. Large blocks, and blocks that replicas or the disk
//! must confirm, are sent at once in a call of their own.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use redis::{Cmd, RedisResult, Value, aio::ConnectionLike};
use tokio::sync::oneshot;

use super::{
    error::{ClientError, unexpected},
    script::{CallArgs, NUMBER_SIZE, Script, ScriptCall, run},
};

/// The most blocks of one call.
const BLOCKS_MAX: usize = 64;
/// The most bytes of keys and arguments of one call. One block is sent even if it has more.
const BYTES_MAX: usize = 256 << 10;
/// The most messages that the blocks of one call contain. One block is sent even if it has more.
const MESSAGES_MAX: usize = 512;
/// A block with more bytes, more keys and arguments, or more messages than these is sent in a call of its own.
const BLOCK_BYTES_MAX: usize = 16 << 10;
const BLOCK_WORDS_MAX: usize = 160;
const BLOCK_MESSAGES_MAX: usize = 64;

/// The approximate limit of the bytes of a block's shape: its script number, and its numbers of keys and arguments.
const SHAPE_SIZE: usize = 12;

/// Blocks with an equal key can share a call: the number of the slot, and the address of the composed script.
pub(super) type BatchKey = (u16, usize);

/// The blocks that wait for the next call, by batch key.
#[derive(Default)]
pub(super) struct Coalescer(Mutex<HashMap<BatchKey, Batch>>);

#[derive(Default)]
struct Batch {
    /// True while a call is in flight or about to be sent.
    is_busy: bool,
    waiting: VecDeque<Waiting>,
}

/// A block whose caller waits for the answer.
pub(super) struct Waiting {
    number: usize,
    words: Arc<CallArgs>,
    messages: usize,
    pub(super) reply: oneshot::Sender<Result<Value, ClientError>>,
}

impl Coalescer {
    /// True if no call is in flight. Then the caller must make one, and call [`Coalescer::next`] after it.
    pub(super) fn begin(&self, key: BatchKey) -> bool {
        !std::mem::replace(&mut self.0.lock().entry(key).or_default().is_busy, true)
    }

    /// True if blocks wait for the next call.
    pub(super) fn has_waiting(&self, key: BatchKey) -> bool {
        self.0.lock().get(&key).is_some_and(|batch| !batch.waiting.is_empty())
    }

    /// Takes the blocks of the next call. If none wait, marks that no call is in flight.
    pub(super) fn next(&self, key: BatchKey) -> Option<Vec<Waiting>> {
        let mut all = self.0.lock();
        let batch = all.get_mut(&key)?;
        let some = take(&mut batch.waiting);
        batch.is_busy = !some.is_empty();
        (!some.is_empty()).then_some(some)
    }

    /// Adds a block for the next call. True if no call is in flight (any more), as with [`Coalescer::begin`].
    pub(super) fn wait(&self, key: BatchKey, one: Waiting) -> bool {
        let mut all = self.0.lock();
        let batch = all.entry(key).or_default();
        batch.waiting.push_back(one);
        !std::mem::replace(&mut batch.is_busy, true)
    }

    /// Puts back the blocks that a call did not run, so that the next call begins with them.
    pub(super) fn put_back(&self, key: BatchKey, rest: impl DoubleEndedIterator<Item = Waiting>) {
        let mut all = self.0.lock();
        let batch = all.entry(key).or_default();
        rest.rev().for_each(|one| batch.waiting.push_front(one));
    }
}

impl Waiting {
    /// The block of a call, and the receiver of its answer. `number` is the number of its script in the composed
    /// script.
    pub(super) fn of(
        call: &ScriptCall<'_>,
        number: usize,
    ) -> (Waiting, oneshot::Receiver<Result<Value, ClientError>>) {
        let (reply, answer) = oneshot::channel();
        let (words, messages) = (call.words().clone(), call.messages());
        (Waiting { number, words, messages, reply }, answer)
    }
}

/// True if a call may run as a block of a shared call.
pub(super) fn is_small(call: &ScriptCall<'_>) -> bool {
    let words = call.words();
    call.messages() <= BLOCK_MESSAGES_MAX
        && words.count() <= BLOCK_WORDS_MAX
        && words.bytes() <= BLOCK_BYTES_MAX
}

/// Takes the blocks of one call from the queue, in order. Drops blocks whose callers have given up.
fn take(waiting: &mut VecDeque<Waiting>) -> Vec<Waiting> {
    let (mut some, mut bytes, mut messages) = (Vec::new(), 0, 0);
    while some.len() < BLOCKS_MAX
        && let Some(first) = waiting.front()
    {
        if !first.reply.is_closed() {
            (bytes, messages) = (bytes + first.words.bytes(), messages + first.messages);
            if !some.is_empty() && (bytes > BYTES_MAX || messages > MESSAGES_MAX) {
                break;
            }
        }
        some.extend(waiting.pop_front().filter(|first| !first.reply.is_closed()));
    }
    some
}

/// A call of a composed script.
pub(super) struct Blocks {
    composed: Arc<Script>,
    all: Vec<(usize, Arc<CallArgs>)>,
}

impl Blocks {
    pub(super) fn of(composed: &Arc<Script>, some: &[Waiting]) -> Blocks {
        let all = some.iter().map(|one| (one.number, one.words.clone())).collect();
        Blocks { composed: composed.clone(), all }
    }

    /// The key that decides which node runs the call.
    pub(super) fn route(&self) -> &[u8] {
        self.all.first().and_then(|(_, words)| words.keys.first()).map_or(&[], Vec::as_slice)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let words = || self.all.iter().map(|(_, words)| words);
        let size = words().map(|words| words.bytes() + SHAPE_SIZE).sum::<usize>();
        let count = words().map(|words| words.count() + 1).sum::<usize>();
        let mut command =
            Cmd::with_capacity(count + 3, name.len() + script.len() + NUMBER_SIZE + size);
        command.arg(name).arg(script).arg(words().map(|words| words.keys.len()).sum::<usize>());
        for (_, words) in &self.all {
            command.arg(&words.keys);
        }
        for (number, words) in &self.all {
            let shape = format!("{number} {} {}", words.keys.len(), words.args.len());
            command.arg(shape).arg(&words.args);
        }
        command
    }

    pub(super) async fn run(&self, connection: &mut impl ConnectionLike) -> RedisResult<Value> {
        run(&self.composed, connection, |name, script| self.command(name, script)).await
    }
}

/// Reads the answers of the blocks that have run: for each block, 1 and its answer, or 0 and its error.
pub(super) fn read_answers(answer: Value) -> Result<Vec<Result<Value, ClientError>>, ClientError> {
    let Value::Array(parts) = answer else { return Err(unexpected("blocks")) };
    let mut parts = parts.into_iter();
    let mut answers = Vec::with_capacity(parts.len() / 2);
    while let Some(kind) = parts.next() {
        answers.push(match (kind, parts.next()) {
            (Value::Int(1), Some(answer)) => Ok(answer),
            (Value::Int(0), Some(Value::BulkString(text))) => {
                Err(ClientError::of_block(&String::from_utf8_lossy(&text)))
            }
            _ => return Err(unexpected("blocks")),
        });
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Answer = oneshot::Receiver<Result<Value, ClientError>>;

    fn waiting(bytes: usize, messages: usize) -> (Waiting, Answer) {
        let (reply, answer) = oneshot::channel();
        let words = CallArgs { keys: Vec::new(), args: vec![vec![0; bytes]] };
        (Waiting { number: 1, words: Arc::new(words), messages, reply }, answer)
    }

    /// How many each call takes.
    fn calls(all: Vec<Waiting>) -> Vec<usize> {
        let mut queue = VecDeque::from(all);
        let mut calls = Vec::new();
        while !queue.is_empty() {
            calls.push(take(&mut queue).len());
        }
        calls
    }

    #[test]
    fn call_limits_blocks_bytes_messages_but_takes_at_least_one() {
        let of = |count: usize, bytes: usize, messages: usize| {
            let all = (0..count).map(|_| waiting(bytes, messages));
            let (all, _answers): (Vec<_>, Vec<_>) = all.unzip();
            calls(all)
        };
        assert_eq!(of(3, 1, 1), [3]);
        assert_eq!(of(BLOCKS_MAX + 2, 1, 1), [BLOCKS_MAX, 2]);
        assert_eq!(of(3, BYTES_MAX / 2, 1), [2, 1]);
        assert_eq!(of(2, BYTES_MAX + 1, 1), [1, 1]);
        assert_eq!(of(5, 1, MESSAGES_MAX / 2), [2, 2, 1]);
    }

    #[test]
    fn a_block_whose_caller_has_given_up_does_not_go() {
        let (all, mut answers): (Vec<_>, Vec<_>) = (0..4).map(|_| waiting(1, 1)).unzip();
        drop(answers.remove(1));
        assert_eq!(calls(all), [3]);
        let (one, answer) = waiting(1, 1);
        drop(answer);
        assert_eq!(calls(vec![one]), [0]);
    }

    #[test]
    fn each_block_gets_its_own_answer_or_its_own_error() {
        let text = |text: &str| Value::BulkString(text.into());
        let answer = Value::Array(vec![
            Value::Int(1),
            text("first"),
            Value::Int(0),
            text("STALE_EPOCH 7"),
            Value::Int(0),
            text("WRONGTYPE Operation against a key"),
            Value::Int(0),
            text("user_script:3: attempt to index a nil value"),
        ]);
        let answers = read_answers(answer).unwrap();
        assert!(matches!(&answers[0], Ok(value) if *value == text("first")));
        let Err(ClientError::Named { code, detail, .. }) = &answers[1] else {
            panic!("{answers:?}")
        };
        assert_eq!((code.as_str(), detail.as_str()), ("STALE_EPOCH", "7"));
        for failed in &answers[2..] {
            assert!(matches!(failed, Err(ClientError::Failed(_))), "{failed:?}");
        }
        assert!(read_answers(Value::Array(vec![Value::Int(1)])).is_err());
        assert!(read_answers(text("no")).is_err());
    }
}
