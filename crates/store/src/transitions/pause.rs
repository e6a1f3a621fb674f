//! Pauses and resumes a destination (`lua/pause.lua`).

use crate::{Store, StoreError, contract::contract, entry::Paused, keys::DestinationKeys};
use domain::DestinationName;

contract! {
    pause
    keys(keys: &DestinationKeys) {
        destination: keys.hash(), epoch,
    }
    args<'a> {
        ingest: &'a str,
        processing: &'a str,
        delivery: &'a str,
    }
}

impl Store {
    /// Pauses or resumes ingest, processing and delivery; `None` changes nothing. Returns which parts are paused now,
    /// and whether that changed.
    pub async fn pause(
        &self,
        name: &DestinationName,
        ingest: Option<bool>,
        processing: Option<bool>,
        delivery: Option<bool>,
    ) -> Result<(Paused, bool), StoreError> {
        let keys = self.keys().destination(name);
        let word = |paused: Option<bool>| match paused {
            None => "",
            Some(true) => "1",
            Some(false) => "0",
        };
        type Answer = (u64, String, bool, String, u64);
        let call =
            Args { ingest: word(ingest), processing: word(processing), delivery: word(delivery) }
                .call(self, &keys);
        let answer: Answer = self.run(&call).await?;
        let (version, definition, changed, paused, born) = answer;
        let paused = Paused::of_text(&paused);
        let noted = self.index(name, version, (paused, born, &definition)).await;
        noted.map_err(StoreError::after_partial_success)?;
        Ok((paused, changed))
    }
}
