//! Finds out whether the append-only file of a server is complete. After an operator switches the file on, it is
//! complete only when its first rewrite has ended, and Redis does not report whether a rewrite is the first.

use std::collections::HashMap;

use parking_lot::Mutex;
use redis::InfoDict;

/// Servers whose append-only file was complete, by run id and replication id, with the number of their `CONFIG SET`
/// calls at that time. After more such calls, the file may have been switched off and on.
#[derive(Default)]
pub(super) struct CompleteFiles(Mutex<HashMap<String, String>>);

/// The most servers to remember.
const SERVERS_MAX: usize = 64;

impl CompleteFiles {
    /// True if the file of the server with this `INFO` is complete.
    pub(super) fn note(&self, info: &InfoDict) -> bool {
        let field = |name: &str| info.get::<String>(name).unwrap_or_default();
        let server = field("run_id") + &field("master_replid");
        let calls = field("cmdstat_config|set");
        let calls = calls.split(',').next().unwrap_or_default();
        let is_complete = field("aof_rewrite_in_progress") == "0"
            && field("aof_rewrite_scheduled") == "0"
            && field("aof_last_bgrewrite_status") == "ok";
        let mut seen = self.0.lock();
        if !is_complete {
            return seen.get(&server).is_some_and(|before| before == calls);
        }
        if seen.len() >= SERVERS_MAX {
            seen.clear();
        }
        seen.insert(server, calls.to_owned());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewrite_is_trusted_after_a_complete_file_and_no_config_set() {
        let files = CompleteFiles::default();
        let seen = |rewriting: u8, calls: u8, status: &str, run: &str| {
            files.note(&InfoDict::new(&format!(
                "run_id:{run}\r\nmaster_replid:abc\r\naof_rewrite_in_progress:{rewriting}\r\n\
                 aof_rewrite_scheduled:0\r\naof_last_bgrewrite_status:{status}\r\n\
                 cmdstat_config|set:calls={calls},usec=9\r\n"
            )))
        };
        assert!(!seen(1, 1, "ok", "a"), "it may be the first");
        assert!(seen(0, 1, "ok", "a") && seen(1, 1, "ok", "a") && seen(0, 1, "ok", "a"));
        assert!(!seen(0, 2, "err", "a") && !seen(1, 2, "ok", "a"), "a setting has changed");
        assert!(seen(0, 2, "ok", "a") && seen(1, 2, "ok", "a"));
        assert!(!seen(1, 2, "ok", "b"), "another server");
    }
}
