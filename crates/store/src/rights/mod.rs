//! The rights that the Redis user needs, and the rights that it lacks; and whether Redis refuses all writes. Each pod
//! checks both at its start and once a second, because both can change while it runs. While a pod knows of a missing
//! right, it runs no scripts.

mod probe;

use std::{
    collections::{BTreeSet, HashMap},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Store, StoreError,
    commands::{ALWAYS, OF_WAKE_UPS, commands_on_keys},
    scripts::Scripts,
};
pub(super) use probe::{Needs, Probe};
use redis_client::{ClientError, Script};

/// How often a pod checks its rights.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Missing rights, as the ACL rules that would grant them: `+hset`, `~reseq:*`, `&reseq:*`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    /// Rights without which a pod cannot work.
    pub rights: BTreeSet<String>,
    /// Rights without which a pod gets no wake-ups, and only polls.
    pub hints: BTreeSet<String>,
    /// The error message of a server that refuses all writes, if there is one.
    pub refusal: Option<String>,
    /// True if a server accepts writes.
    pub accepts_writes: bool,
    /// True if the memory of a server is full: it accepts only writes that need no more memory.
    pub is_full: bool,
}

impl Missing {
    pub(super) fn and(mut self, other: Missing) -> Missing {
        self.rights.extend(other.rights);
        self.hints.extend(other.hints);
        self.refusal = self.refusal.or(other.refusal);
        self.accepts_writes |= other.accepts_writes;
        self.is_full |= other.is_full;
        self
    }

    /// Names the missing rights that a pod needs; `None` if nothing is missing.
    pub fn rights_sentence(&self) -> Option<String> {
        let rules = joined(self.rights.iter())?;
        Some(format!("the Redis user lacks rights that Reseq needs: {rules}"))
    }

    /// Names the missing rights that only slow a pod down; `None` if nothing is missing.
    pub fn hints_sentence(&self) -> Option<String> {
        let rules = joined(self.hints.iter())?;
        Some(format!(
            "the Redis user lacks rights for wake-ups: {rules}; work is found by polling instead, \
             up to a second later"
        ))
    }

    /// Why a pod is not ready; `None` if it is ready. A user that was created with `ACL SETUSER … +@all` has no
    /// channels, but its pod is ready. A missing command means that the ACL is too narrow.
    fn not_ready(&self) -> Option<String> {
        let commands = self.hints.iter().filter(|rule| rule.starts_with('+'));
        joined(self.rights.iter().chain(commands))
    }
}

fn joined<'a>(rules: impl Iterator<Item = &'a String>) -> Option<String> {
    let rules: Vec<&str> = rules.map(String::as_str).collect();
    (!rules.is_empty()).then(|| rules.join(" "))
}

/// The state of this pod's checks.
pub(super) struct Rights {
    probe: Probe,
    missing: Mutex<Missing>,
    /// The servers that refuse writes, and since when.
    refusing: Mutex<HashMap<String, Instant>>,
    /// True if a necessary right is missing. Most calls read this instead of taking the lock.
    is_lacking: AtomicBool,
    /// A check holds this lock, so that an older answer never replaces a newer one.
    asking: tokio::sync::Mutex<()>,
    /// Starts a check after Redis has refused a call.
    refused: Notify,
}

impl Rights {
    pub(super) fn new(probe: Probe) -> Rights {
        let (missing, refusing, is_lacking, asking, refused) = Default::default();
        Rights { probe, missing, refusing, is_lacking, asking, refused }
    }

    /// Call this after Redis has refused a call because of a missing right.
    pub(super) fn was_refused(&self) {
        self.refused.notify_one();
    }

    fn missing(&self) -> Missing {
        self.missing.lock().clone()
    }

    /// Logs when a server begins to refuse writes, and when it accepts them again.
    fn note_writes(&self, address: &str, found: &Missing) {
        let full = || "OOM its memory is full (maxmemory)".to_owned();
        let reason = found.refusal.clone().or_else(|| found.is_full.then(full));
        let mut refusing = self.refusing.lock();
        match (reason, refusing.get(address)) {
            (Some(reason), None) => {
                tracing::error!(address, "Redis refuses writes: {reason}");
                refusing.insert(address.to_owned(), Instant::now());
            }
            (None, Some(since)) => {
                let after_s = since.elapsed().as_secs();
                tracing::info!(address, after_s, "Redis accepts writes again");
                refusing.remove(address);
            }
            _ => {}
        }
    }

    /// Stores the result of a check, and logs changes.
    fn keep(&self, found: &Missing) {
        let mut kept = self.missing.lock();
        let before = std::mem::replace(&mut *kept, found.clone());
        self.is_lacking.store(!found.rights.is_empty(), Ordering::Relaxed);
        drop(kept);
        if before.rights != found.rights {
            match found.rights_sentence() {
                Some(sentence) => tracing::error!("{sentence}; this pod is not ready without them"),
                None => tracing::info!("the Redis user now has all rights that Reseq needs"),
            }
        }
        if before.hints != found.hints {
            match found.hints_sentence() {
                Some(sentence) => tracing::error!("{sentence}"),
                None => tracing::info!("the Redis user now has the rights for wake-ups"),
            }
        }
    }
}

impl Store {
    /// Asks every primary which rights its user lacks. If a primary does not answer, none of its rights counts as
    /// missing.
    pub async fn ask_rights(&self) -> Missing {
        let _asking = self.inner.rights.asking.lock().await;
        let probe = &self.inner.rights.probe;
        let asked = self.client().each_primary(probe).await;
        let answers: Vec<_> = asked
            .into_iter()
            .map(|(address, answer)| {
                let found = match answer {
                    Ok(missing) => missing,
                    Err(ClientError::NoRights(what)) => return Some(Missing::of(what)),
                    Err(ClientError::RefusesWrites(sentence)) => {
                        Missing { refusal: Some(sentence), ..Missing::default() }
                    }
                    Err(error) => {
                        tracing::debug!(%error, "cannot check the rights of the Redis user");
                        return None;
                    }
                };
                self.inner.rights.note_writes(&address, &found);
                Some(found)
            })
            .collect();
        let known = answers.iter().any(Option::is_some);
        let missing = answers.into_iter().flatten().fold(Missing::default(), Missing::and);
        if known {
            self.inner.rights.keep(&missing);
        }
        missing
    }

    /// Returns an error if a necessary right is known to be missing.
    pub(super) fn check_rights(&self) -> Result<(), StoreError> {
        if !self.inner.rights.is_lacking.load(Ordering::Relaxed) {
            return Ok(());
        }
        let rules = joined(self.inner.rights.missing().rights.iter());
        rules.map_or(Ok(()), |rules| Err(StoreError::NoRights(rules)))
    }

    /// Checks now. Returns an error if a right is missing that a ready pod needs, or if no server accepts writes.
    pub(super) async fn check_rights_now(&self) -> Result<(), StoreError> {
        let missing = self.ask_rights().await;
        if let Some(rules) = missing.not_ready() {
            return Err(StoreError::NoRights(rules));
        }
        match missing.refusal {
            Some(sentence) if !missing.accepts_writes => Err(StoreError::RefusesWrites(sentence)),
            _ => Ok(()),
        }
    }

    /// The rights that are known to be missing.
    pub fn missing_rights(&self) -> Missing {
        self.inner.rights.missing()
    }

    /// The error message of the server that holds a partition, if it refuses all writes.
    pub async fn refusal_at(&self, partition: u16) -> Option<String> {
        self.client().refusal_at(&self.keys().partition(partition).epoch()).await
    }

    /// Checks the rights once a second, and after each refused call, until `stop`.
    pub async fn watch_rights(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(ASK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
                () = self.inner.rights.refused.notified() => {}
            }
            stop.run_until_cancelled(self.ask_rights()).await;
            // Limits the rate of checks, however many calls are refused.
            stop.run_until_cancelled(tokio::time::sleep(ASK_EVERY / 10)).await;
        }
    }
}

impl Missing {
    fn of(what: String) -> Missing {
        Missing { rights: BTreeSet::from([what]), ..Missing::default() }
    }
}

/// The ACL rules for commands that every deployment needs: `+hset`.
pub fn rules() -> BTreeSet<String> {
    let scripts = Scripts::new();
    let sources = scripts.all().into_iter().map(Script::source);
    let on_keys = commands_on_keys(sources).into_iter().map(|command| command.name);
    let names = on_keys.chain(ALWAYS.iter().map(|words| words[0])).chain(OF_WAKE_UPS);
    names.map(|name| format!("+{}", name.to_lowercase())).collect()
}
