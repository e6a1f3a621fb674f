//! Records that this pod is alive (`lua/heartbeat.lua`).

use std::time::Duration;

use crate::{Store, StoreError, contract::contract, keys::Keys};

contract! {
    heartbeat
    keys(keys: &Keys) {
        pods,
    }
    args<'a> {
        role: &'a str,
        pod: String,
        lasts_ms: u64,
    }
}

impl Store {
    /// Records that this pod is alive in this role. Returns how many pods are alive in the role, by heartbeats within
    /// `lease`, and when the next heartbeat expires unless renewed.
    pub async fn heartbeat(
        &self,
        role: &str,
        lease: Duration,
    ) -> Result<(usize, Duration), StoreError> {
        self.heartbeat_as(role, "", lease).await
    }

    /// Like `heartbeat`, with a description of this pod (`about`).
    pub(crate) async fn heartbeat_as(
        &self,
        role: &str,
        about: &str,
        lease: Duration,
    ) -> Result<(usize, Duration), StoreError> {
        let call = Args {
            role,
            pod: format!("{}{about}", self.pod()),
            lasts_ms: lease.as_millis() as u64,
        }
        .call(self, self.keys());
        let (pods, silent_for_ms): (usize, u64) = self.run(&call).await?;
        Ok((pods, Duration::from_millis(silent_for_ms)))
    }

    /// Removes this pod's heartbeat for this role.
    pub async fn leave(&self, role: &str) -> Result<(), StoreError> {
        self.leave_as(role, "").await
    }

    /// Removes this pod's heartbeat with the description `about`.
    pub(crate) async fn leave_as(&self, role: &str, about: &str) -> Result<(), StoreError> {
        let member = format!("{role}:{}{about}", self.pod());
        self.query::<()>(redis::pipe().zrem(self.keys().pods(), member).ignore()).await
    }
}
