//! Ends sessions of the console (`lua/end_session.lua`).

use crate::{Store, StoreError, contract::contract, keys::Keys};

contract! {
    end_session
    keys(keys: &Keys) {
        ended: keys.sessions_ended(),
    }
    args<'a> {
        session: &'a str,
        most: usize,
        session_ms_max: u64,
        channel: String,
    }
}

/// The most ended sessions that Redis remembers. If more sessions end, all sessions that began before the oldest
/// remembered one count as ended.
pub(crate) const ENDED_MAX: usize = 10_000;
/// The longest session, in milliseconds.
pub const SESSION_MS_MAX: u64 = 12 * 3_600_000;

impl Store {
    /// Ends a session, and notifies all pods.
    pub async fn end_session(&self, id: &str) -> Result<(), StoreError> {
        let call = Args {
            session: id,
            most: ENDED_MAX,
            session_ms_max: SESSION_MS_MAX,
            channel: self.keys().wake_definitions(),
        }
        .call(self, self.keys());
        self.run::<String>(&call).await.map(drop)
    }
}
