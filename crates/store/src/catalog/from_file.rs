//! Writes a definition of a configuration file. Redis keeps which forms of it files have written: with
//! `definitions.file = "changed"`, a form that was written before is not written again. So a process that starts with
//! an earlier file, or after a rollback, changes nothing.

use config::FileRule;

use crate::{Author, Defined, Replaces, Store, StoreError, Terms};
use domain::{Destination, destination::Change};

/// The most forms that are kept.
const FORMS_MAX: usize = 20;
/// How often a definition is compared again because it has changed meanwhile.
const STALE_MAX: usize = 5;

/// What became of a definition of a configuration file.
#[derive(Debug, Clone)]
pub struct FromFile {
    /// `None` if it was not written.
    pub defined: Option<Defined>,
    /// How it differs from the definition that ran before; empty if there was none.
    pub changes: Vec<Change>,
}

impl Store {
    /// Defines a destination as a configuration file says, if the rule lets it.
    pub async fn define_from_file(
        &self,
        destination: &Destination,
        rule: FileRule,
        by: &Author,
    ) -> Result<FromFile, StoreError> {
        let mut last = StoreError::StaleDefinition;
        let mine = self.inner.keyring.fingerprints(destination);
        for _ in 0..STALE_MAX {
            let (running, forms) = self.running(destination).await?;
            let known: Vec<&str> = forms.split_ascii_whitespace().collect();
            let was_written = mine.iter().any(|one| known.contains(&one.as_str()));
            // A newer process may have encrypted the running one with a key that this process lacks.
            let is_unreadable = matches!(&running, Some((_, Err(_))));
            let changes = match &running {
                Some((_, Ok(running))) if running != destination => running.changes_to(destination),
                _ => Vec::new(),
            };
            if was_written && (is_unreadable || !changes.is_empty()) && rule == FileRule::Changed {
                return Ok(FromFile { defined: None, changes });
            }
            let replaces =
                running.map_or(Replaces::Nothing, |(version, _)| Replaces::Version(version));
            let mut terms = Terms::new(by.clone(), replaces);
            if known.first().copied() != mine.first().map(String::as_str) {
                let others = known.into_iter().filter(|one| {
                    !mine.iter().any(|same| same == one) && self.inner.keyring.may_keep(one)
                });
                let first = mine.first().map(String::as_str);
                terms.file_forms =
                    Vec::from_iter(first.into_iter().chain(others).take(FORMS_MAX)).join(" ");
            }
            match self.define_over(destination, &terms).await {
                Err(error @ StoreError::WrongVersion(_)) => last = error,
                defined => return Ok(FromFile { defined: Some(defined?), changes }),
            }
        }
        Err(last)
    }

    /// The version and the definition that runs now, and which forms files have written.
    async fn running(
        &self,
        destination: &Destination,
    ) -> Result<(Option<(u64, Result<Destination, StoreError>)>, String), StoreError> {
        let hash = self.keys().destination(&destination.name).hash();
        type Text = Option<String>;
        let (version, definition, deleted, forms): (Option<u64>, Text, Text, Text) = self
            .ask(&redis::Cmd::hmget(hash, &["version", "definition", "deleted", "file_forms"]))
            .await?;
        let running = version.zip(definition).filter(|_| deleted.is_none());
        let running = running.map(|(version, text)| (version, self.inner.keyring.unseal(&text)));
        Ok((running, forms.unwrap_or_default()))
    }
}
