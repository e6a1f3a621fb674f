//! Ends sessions of the console (`lua/end_session.lua`).

use crate::store::{Store, StoreError};

/// The most ended sessions that are remembered. With more, all that began before the oldest of them count as ended.
pub(in crate::store) const ENDED_MAX: usize = 10_000;
/// The longest session, in milliseconds.
pub const SESSION_MS_MAX: u64 = 12 * 3_600_000;

impl Store {
    /// Ends a session, and notifies all pods.
    pub async fn end_session(&self, id: &str) -> Result<(), StoreError> {
        let mut call = self.call(|scripts| &scripts.end_session);
        call.key(self.keys().sessions_ended()).arg(id).arg(ENDED_MAX).arg(SESSION_MS_MAX);
        call.arg(self.keys().wake_definitions());
        self.run::<String>(&call).await.map(drop)
    }
}
