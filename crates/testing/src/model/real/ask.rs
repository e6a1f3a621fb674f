//! One call of the store per operation, with the answer in the model's types.

use std::pin::Pin;

use domain::{
    Arrival, Disposition, ErrorKind, LeaseToken, MessageIds, RetryPolicy, Sequence, Stage, State,
};
use redis_client::ClientError;
use store::{
    Claimed, Completion, Extension, Failed, LaneRequest as StoreRequest, LeaseTerms, Reaped,
    RefusedHead, Retry, StoreError, Terms, Unconfirmed, Who, Withdrawal,
};

use super::{
    FIRST_TIME, LONG, Real, SECOND_US, destination,
    words::{arrival, error, message, request, until, wait},
};
use crate::model::{
    op::{self, Deadline, Failure, Given, Op, Refused, Reply, Run},
    state::{NAMES, Name},
    step::GRANTED_AHEAD,
};
use crate::scripts::Calls;

/// More bytes of results than are kept for a destination, or for all.
const RESULTS_BYTES: &str = "1000000000";
/// The reason for withdrawals.
pub const REASON: &str = "why";
/// The reason for withdrawals by policy.
pub const GIVEN_UP: &str = "its attempts were used up";
/// An answer, to be translated once its epochs and versions are known.
pub type Told = Box<dyn FnOnce(&mut Real) -> Reply>;
/// A call that has begun.
pub(super) type Asked = Pin<Box<dyn Future<Output = Result<Told, StoreError>>>>;

fn told(reply: Reply) -> Result<Told, StoreError> {
    Ok(Box::new(move |_| reply))
}

fn sequences_of(members: &[String]) -> Vec<Sequence> {
    // The end of a rest (`erp/rate`) counts as a delay of no message.
    let number = |member: &String| member.split('/').nth(1).unwrap().parse().unwrap_or(0);
    let mut all: Vec<Sequence> = members.iter().map(number).collect();
    all.sort_unstable();
    all
}

impl Real {
    /// Remembers the secret of these leases, under the model's name for it. Returns their messages.
    fn learn_leased(&mut self, name: String, leased: &Claimed) -> Vec<Given> {
        if let Some((token, _)) = leased.messages.first() {
            self.secrets.insert(name, token.secret.to_string());
        }
        leased.messages.iter().map(|(_, message)| self.given(message)).collect()
    }

    /// Begins a call that may run together with others; `None` if the operation is of another kind.
    pub(super) fn begin(&mut self, op: &Op) -> Option<Asked> {
        let store = self.store.clone();
        Some(match op {
            Op::Ingest { call, known, epoch, arrivals, leases } => {
                let arrival = |one: &op::Arrival| {
                    let epoch = one.redrive.map_or(0, |redrive| self.actual_epoch(redrive.epoch));
                    arrival(one, known.name, epoch)
                };
                let arrivals: Vec<Arrival> = arrivals.iter().map(arrival).collect();
                let (caller, known) = (self.caller(call), self.known_of(known));
                let (epoch, name) = (self.actual_epoch(*epoch), call.secret());
                let terms = leases.then(|| LeaseTerms { holder: store.holder(), lease: LONG });
                Box::pin(async move {
                    let all: Vec<&Arrival> = arrivals.iter().collect();
                    let unconfirmed = Unconfirmed::default();
                    let terms = terms.as_ref().map(|terms| (terms, &unconfirmed));
                    let ingested =
                        store.ingest_leasing(&caller, &known, epoch, &all, terms).await?;
                    let told: Told = Box::new(move |real| {
                        let (results, leased) = ingested;
                        let given = real.learn_leased(name, &leased);
                        let results = results.into_iter().map(|one| real.ingested(one)).collect();
                        Reply::Ingested(results, given)
                    });
                    Ok(told)
                })
            }
            Op::Claim { call, known, min, max } => {
                let (caller, known) = (self.caller(call), self.known_of(known));
                let (name, count) = (call.secret(), *min..=*max);
                Box::pin(async move {
                    let claimed = store.claim(&caller, &known, count, LONG).await?;
                    let told: Told =
                        Box::new(move |real| Reply::Claimed(real.learn_leased(name, &claimed)));
                    Ok(told)
                })
            }
            Op::Complete { known, items } => {
                let complete = |(token, output)| self.completion(known.name, token, output);
                let items: Vec<Completion> =
                    items.iter().map(|(token, output)| complete((token, output))).collect();
                let known = self.known_of(known);
                Box::pin(
                    async move { told(Reply::Statuses(store.complete(&known, &items).await?)) },
                )
            }
            Op::Release { who, epoch, known, lanes } => {
                let owner = self.owner(*who, *epoch);
                let request = |one| request(one, known.definition.log_max > 0);
                let lanes: Vec<StoreRequest> = lanes.iter().map(request).collect();
                let known = self.known_of(known);
                Box::pin(async move {
                    let released = store.release(&owner, &known, &lanes).await?;
                    let told: Told = Box::new(move |real| {
                        let run = |run: store::LaneRun| Run {
                            wait: until(run.wait),
                            messages: run.messages.iter().map(|one| real.given(one)).collect(),
                        };
                        let runs = released.runs.into_iter().map(run).collect();
                        let pending = released.withdrawals.into_iter();
                        let mut withdrawals: Vec<_> =
                            pending.map(|one| (one.sequence, one.how)).collect();
                        withdrawals.sort_unstable_by_key(|(sequence, _)| *sequence);
                        Reply::Runs { withdrawals, runs }
                    });
                    Ok(told)
                })
            }
            _ => return None,
        })
    }

    pub(super) async fn ask(&mut self, op: &Op) -> Result<Told, StoreError> {
        let store = self.store.clone();
        match op {
            Op::Ingest { .. } | Op::Claim { .. } | Op::Complete { .. } | Op::Release { .. } => {
                self.begin(op).expect("it is one of these").await
            }
            Op::Fail { call, known, items } => {
                let destination = self.known_of(known).destination.clone();
                let policy = RetryPolicy::of_transform(&destination, &Default::default());
                let fail = |failure: &Failure| Failed {
                    token: self.token(known.name, &failure.token),
                    disposition: match failure.wait {
                        Some(until) => Disposition::Postpone(wait(until)),
                        None => policy.exhausted(false),
                    },
                    is_later: failure.is_later,
                    error: error(Stage::Transform, ErrorKind::Status),
                    ids: MessageIds::default(),
                };
                let items: Vec<Failed> = items.iter().map(fail).collect();
                let (caller, known) = (self.caller(call), self.known_of(known));
                told(Reply::Statuses(store.fail(&caller, &known, &items).await?))
            }
            Op::Requeue { call, known, tokens } => {
                let tokens: Vec<LeaseToken> =
                    tokens.iter().map(|token| self.token(known.name, token)).collect();
                let (caller, known) = (self.caller(call), self.known_of(known));
                told(Reply::Statuses(store.requeue(&caller, &known, &tokens).await?))
            }
            Op::Extend { known, items } => {
                let extend = |one: &op::Extension| Extension {
                    token: LeaseToken {
                        claimed_ms: if one.is_long_ago { 0 } else { store::server_clock_ms() },
                        ..self.token(known.name, &one.token)
                    },
                    checkpoint: one.checkpoint.clone(),
                };
                let items: Vec<Extension> = items.iter().map(extend).collect();
                let known = self.known_of(known);
                told(Reply::Statuses(store.extend(&known, &items, LONG).await?.1))
            }
            Op::Reap { known } => {
                let partition = self.keys.partition(0);
                let mut leases = self.members(known.name, &partition.leases()).await;
                let delays = self.members(known.name, &partition.delayed()).await;
                leases.push(format!("{}/999/none", known.name));
                let known = self.known_of(known);
                let name = &known.destination.name;
                let Reaped { leases, delays, halted } = store.reap(name, &leases, &delays).await?;
                told(Reply::Reaped { leases, delays, halted })
            }
            Op::Overdue => {
                let overdue = store.overdue(&[0]).await?.remove(0).by_destination;
                let all = NAMES.into_iter().filter_map(|name| {
                    let (leases, delays) = overdue.get(name)?;
                    Some((name, sequences_of(leases), sequences_of(delays)))
                });
                told(Reply::Overdue(all.collect()))
            }
            Op::AcquirePartition { who } => {
                let (token, seen) = (&self.owners[*who], &self.seen_owner);
                let owned = store.take_partition(0, token, LONG, seen).await?;
                Ok(Box::new(move |real| Reply::Owned {
                    epoch: real.epoch(owned.epoch),
                    takeover_wait: until(owned.takeover_wait),
                }))
            }
            Op::ResignPartition { who, vouched } => {
                let vouched = vouched.map(|epoch| self.actual_epoch(epoch));
                let resigned = store.resign_partition(0, &self.owners[*who], vouched).await?;
                // A real sender would use a new token to take the partition again. Here it uses the same one.
                if resigned.was_owned {
                    self.seen_owner.clear();
                }
                Ok(Box::new(move |real| Reply::Resigned {
                    was_owned: resigned.was_owned,
                    epoch: real.epoch(resigned.epoch),
                }))
            }
            Op::Postpone { refused, wait: time } => {
                let Refused { who, epoch, known, lane, sequence, attempts } = refused;
                let (owner, known) = (self.owner(*who, *epoch), self.known_of(known));
                let lane = lane.name();
                let why = error(Stage::Delivery, ErrorKind::Timeout);
                let (lane, wait) = (lane.as_deref(), wait(*time));
                let (sequence, failed) = (*sequence, *attempts);
                let head = RefusedHead { lane, sequence, failed, error: &why };
                store.postpone(&owner, &known, head, wait).await?;
                told(Reply::Done)
            }
            Op::Halt { refused } => {
                let Refused { who, epoch, known, lane, sequence, attempts } = refused;
                let (owner, known) = (self.owner(*who, *epoch), self.known_of(known));
                let lane = lane.name();
                let why = error(Stage::Delivery, ErrorKind::Rejected);
                let (lane, sequence, failed) = (lane.as_deref(), *sequence, *attempts);
                let head = RefusedHead { lane, sequence, failed, error: &why };
                store.halt(&owner, &known, head).await?;
                told(Reply::Done)
            }
            Op::Withdraw { .. } | Op::Retry { .. } | Op::Discard { .. } | Op::Pause { .. } => {
                self.ask_as_person(op).await
            }
            Op::Expire { known } => {
                told(Reply::Expired(store.expire(&self.known_of(known)).await?))
            }
            Op::GiveUp { known } => {
                told(Reply::GivenUp(store.apply_policy_to_halted(&self.known_of(known)).await?))
            }
            Op::Damage { name, sequence, damage } => {
                self.damage(name, *sequence, *damage).await;
                told(Reply::Done)
            }
            Op::Repair { known, harm } => told(self.repair(known, *harm).await?),
            Op::Define { name, definition } | Op::Remake { name, definition } => {
                let name = *name;
                if matches!(op, Op::Remake { .. }) {
                    store.delete_destination(&name.parse().unwrap(), true).await?;
                }
                let defined =
                    store.call_define(&destination(name, definition), &Terms::default()).await?;
                Ok(Box::new(move |real| Reply::Defined {
                    version: real.version(name, defined.version),
                    changed: defined.changed,
                    created: defined.created,
                }))
            }
            Op::BeginRemove { name } => self.begin_remove(name).await,
            Op::EndRemove { name } => self.end_remove(name).await,
            Op::Remove { name, purge } => {
                let removed = store.delete_destination(&name.parse().unwrap(), *purge).await?;
                told(Reply::Removed { purged: removed.removed_messages })
            }
            Op::Restart => {
                let key = self.keys.partition(0).epoch();
                if self.run::<bool>(&["EXISTS", &key]).await {
                    self.run::<u64>(&["HSET", &key, "server", "0123"]).await;
                }
                told(Reply::Done)
            }
            Op::LoseEpoch => {
                // Several epochs may have begun in this millisecond. Wait to separate them.
                let last = self.epochs.values().max().copied().unwrap_or_default();
                while store.server_time_ms().await? <= last {}
                self.run::<u64>(&["DEL", &self.keys.partition(0).epoch()]).await;
                told(Reply::Done)
            }
            Op::Pass(deadline) => {
                self.pass(deadline).await;
                told(Reply::Done)
            }
            Op::ScriptFlush => {
                self.run::<()>(&["SCRIPT", "FLUSH"]).await;
                told(Reply::Done)
            }
        }
    }

    async fn ask_as_person(&mut self, op: &Op) -> Result<Told, StoreError> {
        let store = self.store.clone();
        match op {
            Op::Withdraw { who, known, how, failed, messages } => {
                // The owner knows the current epoch.
                let owner = who.map(|who| self.owner(who, self.epoch));
                let messages: Vec<(Option<String>, Sequence)> =
                    messages.iter().map(|(lane, sequence)| (lane.name(), *sequence)).collect();
                let why = error(Stage::Delivery, ErrorKind::Rejected);
                let withdrawal = Withdrawal {
                    how: *how,
                    reason: REASON,
                    error: failed.map(|failed| (failed, &why)),
                    messages: &messages,
                };
                let known = self.known_of(known);
                let who = owner.as_ref().map_or(Who::Operator, Who::Owner);
                let answer = store.withdraw(&known, who, &withdrawal).await?;
                told(Reply::Withdrawn(answer))
            }
            Op::Retry { known, lane, sequence, repaired } => {
                let repaired = repaired.as_ref().map(|body| message(None, body).body);
                let retry = Retry { lane: lane.name(), sequence: *sequence, repaired };
                let state = store.retry(&self.known_of(known), &retry).await?;
                told(Reply::Retried { waits: state == State::Waiting })
            }
            Op::Discard { known, letters } => {
                told(Reply::Discarded(store.discard(&self.known_of(known), letters).await?))
            }
            Op::Pause { name, paused } => {
                let names = |what| paused.split(',').any(|name| name == what);
                let [ingest, processing, delivery] =
                    ["ingest", "processing", "delivery"].map(|what| Some(names(what)));
                let name = name.parse().unwrap();
                let (_, changed) = store.pause(&name, ingest, processing, delivery).await?;
                told(Reply::Paused { changed })
            }
            _ => unreachable!("it is nothing that people ask for"),
        }
    }

    fn calls(&self, name: Name) -> Calls {
        let mut calls = Calls::new(&self.keys, name);
        let version = self.known.get(name).map(|known| self.known_of(known).version);
        calls.version = version.unwrap_or_default().to_string();
        calls
    }

    /// Runs only the first script, as if the pod had died after it.
    async fn begin_remove(&mut self, name: Name) -> Result<Told, StoreError> {
        let answer = self.calls(name).remove().run(&mut self.connection).await.map_err(refused)?;
        let (_, purged): (u64, u64) = redis::from_redis_value(answer).unwrap();
        told(Reply::Removed { purged })
    }

    async fn end_remove(&mut self, name: Name) -> Result<Told, StoreError> {
        let calls = self.calls(name);
        let sequences: Vec<Sequence> = self.run(&["HKEYS", &calls.keys.messages()]).await;
        let leases = self.members(name, &calls.keys.partition.leases()).await;
        let delays = self.members(name, &calls.keys.partition.delayed()).await;
        let purge =
            calls.delete_destination_batch(&["", "a", "b", "{x}:y"], &sequences, &leases, &delays);
        let at = &mut self.connection;
        let purged = redis::from_redis_value(purge.run(at).await.map_err(refused)?).unwrap();
        calls.forget_destination().run(at).await.map_err(refused)?;
        calls.index("").run(at).await.map_err(refused)?;
        told(Reply::Removed { purged })
    }

    /// The members of a sorted set that belong to a destination.
    pub(super) async fn members(&mut self, name: Name, key: &str) -> Vec<String> {
        let mut members: Vec<String> = self.run(&["ZRANGE", key, "0", "-1"]).await;
        members.retain(|member| member.split('/').next() == Some(name));
        members
    }

    /// Sets a stored deadline to the distant past.
    async fn pass(&mut self, deadline: &Deadline) {
        let partition = self.keys.partition(0);
        let keys = self.keys.clone();
        let of = |name: &Name| keys.destination(&name.parse().unwrap());
        let (key, members) = match deadline {
            Deadline::Lease { name, sequence } => {
                let mut members = self.members(name, &partition.leases()).await;
                members.retain(|member| member.starts_with(&format!("{name}/{sequence}/")));
                (partition.leases(), members)
            }
            Deadline::Delay { name, sequence } => {
                (partition.delayed(), vec![format!("{name}/{sequence}")])
            }
            Deadline::ResultsFull { name } => {
                let key = self.keys.partition(0).results();
                self.run::<u64>(&["HSET", &key, name, RESULTS_BYTES]).await;
                return;
            }
            Deadline::RateAhead { name } => {
                let now_us = self.store.server_time_ms().await.unwrap() * 1000;
                let ahead = now_us + u64::from(GRANTED_AHEAD) * SECOND_US;
                let until = ahead.to_string();
                self.run::<u64>(&["HSET", &of(name).hash(), "granted_until", &until]).await;
                return;
            }
            Deadline::Rate { name } => {
                self.run::<u64>(&["HSET", &of(name).hash(), "granted_until", "1"]).await;
                (partition.delayed(), vec![format!("{name}/rate")])
            }
            Deadline::Postponed { name } => {
                let past = FIRST_TIME.to_string();
                let (lanes, releasable) = (of(name).lanes(), partition.releasable());
                for lane in
                    self.run::<Vec<String>>(&["ZRANGE", &lanes, &past, "+inf", "BYSCORE"]).await
                {
                    self.run::<u64>(&["ZADD", &lanes, "XX", &past, &lane]).await;
                }
                self.run::<u64>(&["ZADD", &releasable, "XX", "LT", &past, name]).await;
                return;
            }
            Deadline::Calls { caller, upto } => {
                let key = partition.call(&format!("{}:caller{caller}", self.store.pod()));
                self.run::<u64>(&["DEL", &key]).await;
                self.late.insert(*caller, *upto);
                return;
            }
            Deadline::Owner => {
                let held: Option<String> = self.run(&["GET", &partition.owner()]).await;
                self.seen_owner = held.unwrap_or_default();
                return;
            }
            Deadline::TakeoverWait => {
                // If the epoch was lost, so was the takeover wait.
                if self.run::<bool>(&["EXISTS", &partition.epoch()]).await {
                    let epoch = partition.epoch();
                    self.run::<u64>(&["HSET", &epoch, "takeover_wait_ms", "0"]).await;
                }
                return;
            }
            Deadline::Letter { name, sequence } => {
                (of(name).dead_lettered_at(), vec![sequence.to_string()])
            }
            Deadline::Seen { name, idempotency_key } => {
                let key = of(name).idempotency(idempotency_key);
                let kept: String = self.run(&["GET", &key]).await;
                let mut words: Vec<&str> = kept.splitn(4, ' ').collect();
                words[2] = "1";
                self.run::<()>(&["SET", &key, &words.join(" "), "KEEPTTL"]).await;
                return;
            }
        };
        for member in members {
            self.run::<u64>(&["ZADD", &key, "XX", "1", &member]).await;
        }
    }
}

/// Converts an error of Redis as the store does.
fn refused(error: redis::RedisError) -> StoreError {
    ClientError::from(error).into()
}
