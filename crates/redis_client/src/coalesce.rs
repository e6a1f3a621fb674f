//! Calls scripts. A call goes at once and on its own if it is large, or if no other is on its way.
//! Otherwise it waits, and goes as a block of the next call, together with others.

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

/// Exists while a call is on its way. When it is dropped, also because its caller gave up, the
/// blocks that have gathered go in the next call.
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
        // The callers of these blocks may give up at any time, so the call runs in a task of its
        // own. Without a runtime, the process is ending, and so are the callers.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(next.carry(some));
        }
    }
}

impl InFlight {
    /// Makes one call for these blocks. Those that it leaves out go in the next one.
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
            // An error only means that the caller has given up.
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
            // Whoever calls at the same moment goes along: the destinations of one request, those of wake-ups that
            // arrived together. This waits for no time, only for the tasks that can run now.
            yield_now().await;
            if !self.coalescer.has_waiting(key) {
                telemetry::redis_blocks(1);
                let answer = self.value_at(call.route(), Work::Script(call)).await;
                drop(in_flight);
                return answer;
            }
            let (one, answer) = Waiting::of(call, *number);
            self.coalescer.put_back(key, std::iter::once(one));
            // Its end makes the call.
            drop(in_flight);
            return answer.await.map_err(|_| lost())?;
        }
        let (one, answer) = Waiting::of(call, *number);
        if self.coalescer.wait(key, one) {
            // The call on its way has just ended: dropping a in_flight starts the next one.
            drop(in_flight());
        }
        answer.await.map_err(|_| lost())?
    }
}

fn lost() -> ClientError {
    ClientError::Unconfirmed("the call was dropped".to_owned())
}
