//! What the user of Redis must be allowed to do, and what it is not. Scripts check their commands
//! before they write anything ([`preamble`]); each pod asks once a second whether it lacks a right,
//! since rights can be taken away and given back while it runs.

mod probe;

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    Store, StoreError,
    commands::{ALWAYS, OF_WAKE_UPS, commands_on_keys},
    scripts::Scripts,
};
use crate::redis_client::{ClientError, Script};
pub(super) use probe::{Needs, Probe};

/// How often a pod asks.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Rights that are missing, as rules of an ACL would grant them: `+hset`, `~reseq:*`, `&reseq:*`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    /// Without these a pod cannot do its work.
    pub rights: BTreeSet<String>,
    /// Without these it works, but wake-ups are lost: what there is to do is found by polling.
    pub hints: BTreeSet<String>,
}

impl Missing {
    pub(super) fn and(mut self, other: Missing) -> Missing {
        self.rights.extend(other.rights);
        self.hints.extend(other.hints);
        self
    }

    /// A sentence that names what a pod cannot do without; none if nothing is missing.
    pub fn rights_sentence(&self) -> Option<String> {
        let rules = joined(self.rights.iter())?;
        Some(format!("the Redis user lacks rights that Reseq needs: {rules}"))
    }

    /// A sentence that names what only makes it slower; none if nothing is missing.
    pub fn hints_sentence(&self) -> Option<String> {
        let rules = joined(self.hints.iter())?;
        Some(format!(
            "the Redis user lacks rights for wake-ups: {rules}; what there is to do is found by \
             polling, up to a second later"
        ))
    }

    /// Why a pod is not ready; none if it is. A user made with `ACL SETUSER … +@all` has no channels: the
    /// pod works, and is ready. One that lacks a command was meant to have fewer rights than Reseq needs.
    fn not_ready(&self) -> Option<String> {
        let commands = self.hints.iter().filter(|rule| rule.starts_with('+'));
        joined(self.rights.iter().chain(commands))
    }
}

fn joined<'a>(rules: impl Iterator<Item = &'a String>) -> Option<String> {
    let rules: Vec<&str> = rules.map(String::as_str).collect();
    (!rules.is_empty()).then(|| rules.join(" "))
}

/// What this pod has found out.
pub(super) struct Rights {
    probe: Probe,
    missing: Mutex<Missing>,
    /// Held while it is asked, so that no older answer comes after a newer one.
    asking: tokio::sync::Mutex<()>,
    /// A call was refused: it is time to ask again.
    refused: Notify,
}

impl Rights {
    pub(super) fn new(probe: Probe) -> Rights {
        let (missing, asking, refused) = Default::default();
        Rights { probe, missing, asking, refused }
    }

    /// A call was refused for a missing right.
    pub(super) fn was_refused(&self) {
        self.refused.notify_one();
    }

    fn missing(&self) -> Missing {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps what was found, and logs it if it is news.
    fn keep(&self, found: &Missing) {
        let mut kept = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *kept, found.clone());
        drop(kept);
        if before.rights != found.rights {
            match found.rights_sentence() {
                Some(sentence) => tracing::error!("{sentence}; this pod is not ready without them"),
                None => tracing::info!("the Redis user has the rights that it lacked"),
            }
        }
        if before.hints != found.hints {
            match found.hints_sentence() {
                Some(sentence) => tracing::error!("{sentence}"),
                None => tracing::info!("the Redis user has the rights for wake-ups that it lacked"),
            }
        }
    }
}

impl Store {
    /// Asks every primary what its user lacks. What cannot be asked just now is not known to be
    /// missing.
    pub async fn ask_rights(&self) -> Missing {
        let _asking = self.inner.rights.asking.lock().await;
        let probe = &self.inner.rights.probe;
        let asked = self.client().each_primary(probe).await;
        let answers: Vec<_> = asked
            .into_iter()
            .map(|answer| match answer {
                Ok(missing) => Some(missing),
                Err(ClientError::NoRights(what)) => Some(Missing::of(what)),
                Err(error) => {
                    tracing::debug!(%error, "cannot ask for the rights of the Redis user");
                    None
                }
            })
            .collect();
        let known = answers.iter().any(Option::is_some);
        let missing = answers.into_iter().flatten().fold(Missing::default(), Missing::and);
        if known {
            self.inner.rights.keep(&missing);
        }
        missing
    }

    /// Refuses while a right is missing that this pod cannot do without, as far as it knows.
    pub(super) fn check_rights(&self) -> Result<(), StoreError> {
        match joined(self.inner.rights.missing().rights.iter()) {
            Some(rules) => Err(StoreError::NoRights(rules)),
            None => Ok(()),
        }
    }

    /// Asks for the rights now, and refuses where one is missing without which a pod is not ready.
    pub(super) async fn check_rights_now(&self) -> Result<(), StoreError> {
        self.ask_rights().await.not_ready().map_or(Ok(()), |rules| Err(StoreError::NoRights(rules)))
    }

    /// What is known to be missing.
    pub fn missing_rights(&self) -> Missing {
        self.inner.rights.missing()
    }

    /// Asks once a second, and whenever a call was refused, until `stop`.
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
            // However many calls are refused.
            stop.run_until_cancelled(tokio::time::sleep(ASK_EVERY / 10)).await;
        }
    }
}

impl Missing {
    fn of(what: String) -> Missing {
        Missing { rights: BTreeSet::from([what]), hints: BTreeSet::new() }
    }
}

/// The rules that a user needs for commands, in every deployment: `+hset`.
pub fn rules() -> BTreeSet<String> {
    let scripts = Scripts::new();
    let sources = scripts.all().into_iter().map(Script::source);
    let on_keys = commands_on_keys(sources).into_iter().map(|command| command.name);
    let names = on_keys.chain(ALWAYS.iter().map(|words| words[0])).chain(OF_WAKE_UPS);
    names.map(|name| format!("+{}", name.to_lowercase())).collect()
}
