//! Writes a definition from a configuration file. Redis remembers the forms of the definition that files have
//! written. With `definitions.file = "changed"`, a form that was written before is not written again. So a process
//! that starts with an earlier file, or after a rollback, changes nothing.

use config::FileRule;

use crate::{Author, Defined, Replaces, Store, StoreError, Terms};
use domain::{Destination, destination::Change};

/// The most forms that Redis remembers.
const FORMS_MAX: usize = 20;
/// The most tries to write a definition that others change meanwhile.
const STALE_MAX: usize = 5;

/// The result of writing a definition from a configuration file.
#[derive(Debug, Clone)]
pub struct FromFile {
    /// The result; `None` if the definition was not written.
    pub defined: Option<Defined>,
    /// The differences from the definition that was in force before; empty if there was none.
    pub changes: Vec<Change>,
}

impl Store {
    /// Defines a destination as the configuration file says, if the rule allows it.
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
            // A newer process may have encrypted the current definition with a key that this process does not have.
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

    /// Reads the version and definition that are in force now, and the forms that files have written.
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
