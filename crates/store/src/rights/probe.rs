//! Asks a server which rights the user lacks.

use std::collections::BTreeSet;

use redis::{
    ErrorKind, RedisError, RedisResult, Script, ServerErrorKind, aio::MultiplexedConnection,
};

use super::Missing;
use crate::{
    commands,
    keys::{Claimers, Keys},
    scripts::Scripts,
};
use redis_client::{Admitted, Question, is_full, refusal_of_writes};

/// Returns the names of the denied commands. ARGV holds, for each command to check: its name in the answer, the
/// number of its words, and the words. A command that the server does not have counts as allowed.
const PROBE: &str = r"
local may, missing, at = redis.acl_check_cmd, {}, 1
while may and at < #ARGV do
  local count = tonumber(ARGV[at + 1])
  local is_known, is_allowed = pcall(may, unpack(ARGV, at + 2, at + 1 + count))
  if is_known and not is_allowed then missing[#missing + 1] = ARGV[at] end
  at = at + 2 + count
end
return missing";

/// Parts of the deployment that need rights beyond the common ones.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Needs {
    pub(crate) cluster: bool,
    pub(crate) sentinel: bool,
    pub(crate) replicas: bool,
}

/// The questions about rights, built once.
pub(crate) struct Probe {
    script: Script,
    questions: Vec<String>,
    /// The key pattern of an ACL rule: `reseq:*`.
    pattern: String,
}

impl Probe {
    pub(crate) fn new(keys: &Keys, scripts: &Scripts, needs: Needs) -> Probe {
        let mut probe = Probe {
            script: Script::new(PROBE),
            questions: Vec::new(),
            pattern: format!("{}:*", keys.prefix()),
        };
        for key in sample_of_keys(keys) {
            // Redis runs a script only if its user may read and write all of its keys.
            probe.add(&format!("by hash {key}"), &["EVALSHA", "x", "1", &key]);
            probe.add(&format!("by text {key}"), &["EVAL", "x", "1", &key]);
        }
        let meta = keys.meta();
        for command in
            commands::commands_on_keys(scripts.all().iter().map(|script| script.source()))
        {
            let mut words = vec![command.name, &meta];
            // An argument may be a key, too.
            words.resize(2 + command.arguments, meta.as_str());
            probe.add(&format!("of keys +{}", command.name.to_lowercase()), &words);
        }
        let more: [(bool, &[&[&str]]); 4] = [
            (true, &commands::ALWAYS),
            (needs.cluster, &commands::IN_CLUSTER),
            (needs.replicas, &commands::WITH_REPLICAS),
            (needs.sentinel, &commands::WITH_SENTINEL),
        ];
        for words in more.iter().filter(|(is_needed, _)| *is_needed).flat_map(|(_, words)| *words) {
            probe.add(&format!("+{}", rule_of(words)), words);
        }
        for command in commands::OF_WAKE_UPS {
            let name = command.to_lowercase();
            // Without a channel, Redis checks only the command.
            probe.add(&format!("wake-ups +{name}"), &[command]);
            for channel in [keys.wake_definitions(), keys.partition(0).wake_owner()] {
                probe.add(&format!("channel {name}"), &[command, &channel]);
            }
        }
        probe
    }

    fn add(&mut self, question: &str, words: &[&str]) {
        self.questions.extend([question.to_owned(), words.len().to_string()]);
        self.questions.extend(words.iter().map(|word| (*word).to_owned()));
    }

    /// The rights that the user of this connection lacks.
    pub(crate) async fn run(&self, connection: &mut MultiplexedConnection) -> RedisResult<Missing> {
        let mut missing = Missing::default();
        let mut call = redis::cmd("EVALSHA");
        call.arg(self.script.get_hash()).arg(0).arg(&self.questions);
        let mut answer: RedisResult<Vec<String>> = call.query_async(connection).await;
        if let Err(error) = &answer {
            let lacks_it = is_no_right(error);
            if lacks_it {
                missing.rights.insert("+evalsha".to_owned());
            }
            if lacks_it || error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) {
                let mut call = redis::cmd("EVAL");
                call.arg(PROBE).arg(0).arg(&self.questions);
                answer = call.query_async(connection).await;
            }
        }
        match answer {
            Ok(answers) => self.read(&answers, &mut missing),
            // Without EVAL, nothing else can be checked.
            Err(error) if is_no_right(&error) => drop(missing.rights.insert("+eval".to_owned())),
            // The server is not a Redis that Reseq supports; the checks that follow report that.
            Err(error)
                if matches!(error.kind(), ErrorKind::UnexpectedReturnType | ErrorKind::Parse) => {}
            Err(error) => return Err(error),
        }
        Ok(missing)
    }

    fn read(&self, answers: &[String], missing: &mut Missing) {
        let denied: BTreeSet<&str> = answers.iter().map(String::as_str).collect();
        // If only one of the two is denied, the right to the command is missing, not the right to the keys.
        let lacks_keys = denied
            .iter()
            .filter_map(|answer| answer.strip_prefix("by hash "))
            .any(|key| denied.contains(format!("by text {key}").as_str()));
        if lacks_keys {
            missing.rights.insert(format!("~{}", self.pattern));
        }
        for answer in &denied {
            if let Some(command) = answer.strip_prefix("of keys ") {
                // If the keys are denied, every command on them is denied. So this does not show whether the command
                // itself is allowed.
                if !lacks_keys {
                    missing.rights.insert(command.to_owned());
                }
            } else if let Some(command) = answer.strip_prefix("channel ") {
                if !denied.contains(format!("wake-ups +{command}").as_str()) {
                    missing.hints.insert(format!("&{}", self.pattern));
                }
            } else if let Some(command) = answer.strip_prefix("wake-ups ") {
                missing.hints.insert(command.to_owned());
            } else if answer.starts_with('+') {
                missing.rights.insert((*answer).to_owned());
            }
        }
    }
}

impl Question for Probe {
    type Answer = Missing;

    async fn ask(&self, connection: &mut MultiplexedConnection) -> RedisResult<Missing> {
        let missing = self.run(connection).await?;
        let refusal = refusal_of_writes(connection).await;
        let is_full = refusal.is_none() && is_full(connection).await;
        Ok(Missing { accepts_writes: refusal.is_none(), refusal, is_full, ..missing })
    }
}

impl From<Missing> for Admitted {
    fn from(missing: Missing) -> Admitted {
        match missing.rights_sentence() {
            Some(sentence) => Admitted::No(sentence),
            None => Admitted::Yes(missing.hints_sentence()),
        }
    }
}

/// Keys of every kind, to detect a rule that covers only some kinds of keys.
fn sample_of_keys(keys: &Keys) -> Vec<String> {
    let partition = keys.partition(0);
    let mut sample = vec![keys.meta(), keys.pods()];
    for index in [keys.destinations(), keys.topics()] {
        sample.extend([index.hash(), index.changes(), index.removed()]);
    }
    sample.extend([partition.epoch(), partition.owner(), partition.releasable()]);
    sample.extend([partition.active(Claimers::Builtin), partition.leases(), partition.delayed()]);
    sample.extend([partition.call("probe"), partition.wake_owner(), partition.wake_waiting()]);
    sample
}

/// The name of a command in an ACL rule: `hset`, `cluster|slots`.
fn rule_of(words: &[&str]) -> String {
    let is_container = words[0] == "CLUSTER";
    let count = if is_container { 2 } else { 1 };
    words.iter().take(count).map(|word| word.to_lowercase()).collect::<Vec<_>>().join("|")
}

fn is_no_right(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
}
