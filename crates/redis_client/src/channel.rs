//! A connection for one call. During the migration of a slot, sends `ASKING` before each command.

use redis::{
    Cmd, Pipeline, RedisFuture, RedisResult, Value,
    aio::{ConnectionLike, MultiplexedConnection},
};

/// A connection to the node that serves a call.
pub(super) struct Channel {
    pub(super) connection: MultiplexedConnection,
    /// The node is about to receive the slot (`ASK`).
    pub(super) asking: bool,
}

impl Channel {
    /// Sends all commands in one write, with `ASKING` before each.
    async fn ask(&mut self, commands: impl Iterator<Item = &Cmd>) -> RedisResult<Vec<Value>> {
        let mut pipe = Pipeline::new();
        for command in commands {
            pipe.cmd("ASKING").add_command(command.clone());
        }
        let answers = self.connection.req_packed_commands(&pipe, 0, pipe.len()).await?;
        Ok(answers.into_iter().skip(1).step_by(2).collect())
    }
}

impl ConnectionLike for Channel {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        if !self.asking {
            return self.connection.req_packed_command(command);
        }
        Box::pin(async move {
            let answers = self.ask(std::iter::once(command)).await?;
            Ok(answers.into_iter().next().unwrap_or(Value::Nil))
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipe: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        if !self.asking {
            return self.connection.req_packed_commands(pipe, offset, count);
        }
        Box::pin(async move {
            let answers = self.ask(pipe.cmd_iter()).await?;
            // The caller of a transaction expects one answer that contains the answers of all commands. While the
            // slot migrates, the commands run one by one, not atomically.
            Ok(if pipe.is_transaction() { vec![Value::Array(answers)] } else { answers })
        })
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
    }
}
