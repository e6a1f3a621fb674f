//! Says that this pod lives (`lua/heartbeat.lua`).

use std::time::Duration;

use crate::store::{Store, StoreError};

impl Store {
    /// Says that this pod lives in this role, and counts those who said so within `lease`. Also tells
    /// when the next of them is counted no more if it stays silent.
    pub async fn heartbeat(
        &self,
        role: &str,
        lease: Duration,
    ) -> Result<(usize, Duration), StoreError> {
        let mut call = self.call(|scripts| &scripts.heartbeat);
        call.key(self.keys().pods());
        call.arg(role).arg(self.pod()).arg(lease.as_millis() as u64);
        let (pods, silent_for_ms): (usize, u64) = self.run(&call).await?;
        Ok((pods, Duration::from_millis(silent_for_ms)))
    }

    /// Says that this pod leaves this role.
    pub async fn leave(&self, role: &str) -> Result<(), StoreError> {
        let member = format!("{role}:{}", self.pod());
        self.query::<()>(redis::pipe().zrem(self.keys().pods(), member).ignore()).await
    }
}
