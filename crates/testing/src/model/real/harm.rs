//! Manual damage in Redis, and its repair.

use std::collections::BTreeSet;

use domain::Sequence;
use store::{Claimers, Repair, StoreError};

use super::Real;
use crate::model::{
    op::{CatalogEntry, Harm, Refusal, Reply},
    state::{Damage, Name},
};

/// Sequences without a message.
const NOBODY: [&str; 3] = ["971", "972", "973"];

impl Real {
    pub(super) async fn damage(&mut self, name: Name, sequence: Sequence, damage: Damage) {
        let keys = self.keys.destination(&name.parse().unwrap());
        let (messages, bodies, sequence) = (keys.messages(), keys.bodies(), sequence.to_string());
        match damage {
            Damage::Missing => self.run::<u64>(&["HDEL", &messages, &sequence]).await,
            Damage::Unreadable => self.run::<u64>(&["HSET", &messages, &sequence, "??"]).await,
            Damage::NoBody => self.run::<u64>(&["HDEL", &bodies, &sequence]).await,
        };
    }

    /// Dry run, repair, dry run. The repair must repair everything that the first run found.
    pub(super) async fn repair(
        &mut self,
        known: &CatalogEntry,
        harm: Harm,
    ) -> Result<Reply, StoreError> {
        self.harm(known, harm).await;
        let before: String = self.run(&["DEBUG", "DIGEST"]).await;
        let found = self.repaired(known, true).await?;
        let after: String = self.run(&["DEBUG", "DIGEST"]).await;
        let done = self.repaired(known, false).await?;
        let left = self.repaired(known, true).await?;
        let wrong = if before != after {
            Some("a dry run changed something")
        } else if kinds(&found) != kinds(&done) || found.affected() > 0 {
            Some("a dry run tells something else")
        } else if done.matched() != done.affected() || !done.counters_verified {
            Some("not all was repaired")
        } else if left.matched() > 0 || !left.counters_verified {
            Some("there is still something to repair")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            let text = format!("{wrong}: {found:?}; then {done:?}; then {left:?}");
            return Ok(Reply::Refused(Refusal::Other(text)));
        }
        Ok(Reply::Repaired(kinds(&done)))
    }

    async fn repaired(&self, known: &CatalogEntry, dry_run: bool) -> Result<Repair, StoreError> {
        self.store.repair(&self.known_of(known), dry_run, &|_, _| true).await
    }

    async fn harm(&mut self, known: &CatalogEntry, harm: Harm) {
        let name = known.name;
        let keys = self.keys.destination(&name.parse().unwrap());
        let partition = &keys.partition;
        let [one, two, three] = NOBODY;
        let commands: Vec<Vec<String>> = match harm {
            Harm::Nothing => Vec::new(),
            Harm::Hints => vec![
                words(["DEL", &keys.lanes()]),
                words(["ZREM", &partition.releasable(), name]),
                words(["ZREM", &partition.withdrawing(), name]),
                words(["ZREM", &partition.active(Claimers::Builtin), name]),
                words(["ZREM", &partition.active(Claimers::Worker), name]),
            ],
            Harm::Waiting => vec![words(["DEL", &keys.waiting()])],
            Harm::Counters => {
                let change = |counter, by| words(["HINCRBY", &keys.hash(), counter, by]);
                let all =
                    [("ready", "5"), ("awaiting_turn", "3"), ("bytes", "99"), ("settled", "-1")];
                let more = [("halted_ready", "2"), ("withdrawals", "1"), ("delayed", "4")];
                all.into_iter().chain(more).map(|(counter, by)| change(counter, by)).collect()
            }
            Harm::Twice(sequence) => vec![
                words([
                    "ZADD",
                    &partition.delayed(),
                    "9999999999999",
                    &format!("{name}/{sequence}"),
                ]),
                words(["HINCRBY", &keys.hash(), "delayed", "1"]),
            ],
            Harm::LeftOver => vec![
                words(["ZADD", &keys.halted(), "1", one]),
                words(["HSET", &keys.attempts(), two, "what cannot be read"]),
                words(["ZADD", &partition.leases(), "1", &format!("{name}/{three}/secret")]),
            ],
            Harm::Letters => {
                let first: Vec<String> =
                    self.run(&["ZRANGE", &keys.dead_letters(), "0", "0"]).await;
                let mut all = vec![
                    words(["ZADD", &keys.dead_letters(), one, one]),
                    words(["ZADD", &keys.dead_lettered_at(), "1", two]),
                ];
                all.extend(first.iter().map(|first| words(["ZREM", &keys.dead_letters(), first])));
                all
            }
        };
        for command in commands {
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            self.run::<redis::Value>(&command).await;
        }
    }
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

fn kinds(repair: &Repair) -> BTreeSet<String> {
    repair.items.iter().map(|item| item.kind.clone()).collect()
}
