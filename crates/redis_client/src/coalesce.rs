//! Calls scripts. A large call is sent at once, in a call of its own; so is any call while no other is in flight.
//! Otherwise a call waits, and the next call carries it as a block, together with others.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use redis::{FromRedisValue, Value};
use tokio::{runtime::Handle, task::yield_now};

use super::{
    blocks::{BatchKey, Blocks, Waiting, is_small, read_answers},
    call::Work,
    client::RedisClient,
    error::{ClientError, fitting, unexpected},
    script::{Script, ScriptCall},
};

/// Exists while a call is in flight. When it is dropped (the call has ended, or its caller gave up), the blocks that
/// have gathered are sent in the next call.
struct InFlight {
    client: RedisClient,
    key: BatchKey,
    composed: Arc<Script>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Some(some) = self.client.coalescer.next(self.key) else { return };
        let (client, composed) = (self.client.clone(), self.composed.clone());
        let next = InFlight { client, key: self.key, composed };
        // The callers of these blocks may give up at any time, so the call runs in a separate task. Without a
        // runtime, the process is ending, and nobody waits for the answers.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(next.carry(some));
        }
    }
}

impl InFlight {
    /// Makes one call for these blocks. The next call takes the blocks that this call did not run.
    async fn carry(self, some: Vec<Waiting>) {
        telemetry::redis_blocks(some.len());
        let blocks = Blocks::of(&self.composed, &some);
        let answer = self.client.value_at(blocks.route(), Work::Blocks(&blocks)).await;
        let answers = match answer.and_then(read_answers) {
            Ok(answers) if !answers.is_empty() => answers,
            Ok(_) => vec![Err(unexpected("blocks")); some.len()],
            Err(error) => vec![Err(error); some.len()],
        };
        let mut some = some.into_iter();
        for (answer, one) in answers.into_iter().zip(some.by_ref()) {
            // Sending fails only if the caller has given up.
            let _ = one.reply.send(answer);
        }
        self.client.coalescer.put_back(self.key, some);
    }
}

impl RedisClient {
    /// Runs a script once, at the server that holds its first key.
    pub async fn run<T: FromRedisValue>(&self, call: &ScriptCall<'_>) -> Result<T, ClientError> {
        // Boxed for the reason given at `boxed_value_at`.
        self.boxed_answer_of(call).await.and_then(fitting)
    }

    fn boxed_answer_of<'a>(
        &'a self,
        call: &'a ScriptCall<'_>,
    ) -> BoxFuture<'a, Result<Value, ClientError>> {
        self.answer_of(call).boxed()
    }

    async fn answer_of(&self, call: &ScriptCall<'_>) -> Result<Value, ClientError> {
        let Some((composed, number)) = call.composed().filter(|_| is_small(call)) else {
            telemetry::redis_blocks(1);
            return self.value_at(call.route(), Work::Script(call)).await;
        };
        let key = (self.batch_of(call.route()), Arc::as_ptr(composed) as usize);
        let in_flight = || InFlight { client: self.clone(), key, composed: composed.clone() };
        if self.coalescer.begin(key) {
            let in_flight = in_flight();
            // Let other tasks that can run now add their blocks to this call: tasks for other destinations of the
            // same request, or for wake-ups that arrived together. This does not wait for a timer.
            yield_now().await;
            if !self.coalescer.has_waiting(key) {
                telemetry::redis_blocks(1);
                let answer = self.value_at(call.route(), Work::Script(call)).await;
                drop(in_flight);
                return answer;
            }
            let (one, answer) = Waiting::of(call, *number);
            self.coalescer.put_back(key, std::iter::once(one));
            // Dropping it starts the call.
            drop(in_flight);
            return answer.await.map_err(|_| lost())?;
        }
        let (one, answer) = Waiting::of(call, *number);
        if self.coalescer.wait(key, one) {
            // The call in flight has just ended: dropping an `InFlight` starts the next call.
            drop(in_flight());
        }
        answer.await.map_err(|_| lost())?
    }
}

fn lost() -> ClientError {
    ClientError::Unconfirmed("the call was dropped".to_owned())
}
