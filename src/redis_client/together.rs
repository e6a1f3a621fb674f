//! Makes the calls of scripts: each on its own and at once, or as blocks of one call, if another is on its way.

use std::sync::Arc;

use redis::{FromRedisValue, Value};
use tokio::runtime::Handle;

use super::{
    blocks::{Blocks, Place, Waiting, is_small, read_answers},
    call::Work,
    client::RedisClient,
    error::{ClientError, fitting, unexpected},
    script::{Script, ScriptCall},
};

/// Held while a call is on its way. In the end, also if its caller gives up, the blocks that have gathered go.
struct Turn {
    client: RedisClient,
    place: Place,
    composed: Arc<Script>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(some) = self.client.companies.next(self.place) else { return };
        let (client, composed) = (self.client.clone(), self.composed.clone());
        let next = Turn { client, place: self.place, composed };
        // Their callers may give up at any time, so the call belongs to none of them. Without a runtime, the process
        // ends, and so do their callers.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(next.carry(some));
        }
    }
}

impl Turn {
    /// Makes one call for all of them.
    async fn carry(self, some: Vec<Waiting>) {
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
        self.client.companies.put_back(self.place, some);
    }
}

impl RedisClient {
    /// Runs a script once, at the server that holds its first key.
    pub async fn run<T: FromRedisValue>(&self, call: &ScriptCall<'_>) -> Result<T, ClientError> {
        self.answer_of(call).await.and_then(fitting)
    }

    async fn answer_of(&self, call: &ScriptCall<'_>) -> Result<Value, ClientError> {
        let Some((composed, number)) = call.composed().filter(|_| is_small(call)) else {
            return self.value_at(call.route(), Work::Script(call)).await;
        };
        let place = (self.together(call.route()), Arc::as_ptr(composed) as usize);
        let turn = || Turn { client: self.clone(), place, composed: composed.clone() };
        if self.companies.begin(place) {
            let _turn = turn();
            return self.value_at(call.route(), Work::Script(call)).await;
        }
        let (one, answer) = Waiting::of(call, *number);
        if self.companies.wait(place, one) {
            // The call on its way has just ended: the end of this turn makes the next one.
            drop(turn());
        }
        let lost = |_| ClientError::Unconfirmed("the call was dropped".to_owned());
        answer.await.map_err(lost)?
    }
}
