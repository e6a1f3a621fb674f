//! Pauses and resumes a destination (`lua/pause.lua`).

use crate::{
    domain::DestinationName,
    store::{Store, StoreError, entry::Paused},
};

impl Store {
    /// Pauses or resumes ingest and delivery; `None` changes nothing. Returns what is paused now,
    /// and whether that changed.
    pub async fn pause(
        &self,
        name: &DestinationName,
        ingest: Option<bool>,
        delivery: Option<bool>,
    ) -> Result<(Paused, bool), StoreError> {
        let keys = self.keys().destination(name);
        let mut call = self.call(|scripts| &scripts.pause);
        let word = |paused: Option<bool>| match paused {
            None => "",
            Some(true) => "1",
            Some(false) => "0",
        };
        call.key(keys.hash()).key(keys.partition.epoch());
        call.arg(word(ingest)).arg(word(delivery));
        type Answer = (u64, String, bool, String, u64);
        let answer: Answer = self.run(&call).await?;
        let (version, definition, changed, paused, born) = answer;
        let paused = Paused::of_text(&paused);
        let noted = self.index(name, version, Some((paused, born, &definition))).await;
        noted.map_err(StoreError::after_partial_success)?;
        Ok((paused, changed))
    }
}
