//! How much of its memory Redis uses.

use super::{Store, StoreError, ask, unexpected};

/// What Redis uses, and what it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// `used_memory`, in bytes.
    pub used: u64,
    /// `maxmemory`, in bytes; 0: no limit.
    pub max: u64,
}

impl Memory {
    /// How much of it is used; 0 without a limit.
    fn share(&self) -> f64 {
        if self.max == 0 { 0.0 } else { self.used as f64 / self.max as f64 }
    }

    /// True if so much of it is used, in percent. Without a limit, and at 0 %, it never is.
    pub fn is_at(&self, percent: u8) -> bool {
        percent > 0
            && self.max > 0
            && u128::from(self.used) * 100 >= u128::from(self.max) * u128::from(percent)
    }
}

impl Store {
    /// What Redis says of its memory. On a cluster, what the master with the least left says: of
    /// those that answer.
    pub async fn memory(&self) -> Result<Memory, StoreError> {
        let mut pipe = redis::pipe();
        pipe.cmd("INFO").arg("memory");
        let said = ask::answered(self.query_primaries::<(String,)>(&pipe).await)?;
        let all: Option<Vec<Memory>> =
            said.iter().flatten().map(|(info,)| read_info(info)).collect();
        let all = all.ok_or_else(|| unexpected("INFO memory"))?;
        let least = all.into_iter().max_by(|one, other| one.share().total_cmp(&other.share()));
        least.ok_or_else(|| StoreError::Unavailable("no master of the cluster is known".into()))
    }
}

fn read_info(info: &str) -> Option<Memory> {
    let field = |name: &str| {
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(found, _)| *found == name)?.1.trim().parse().ok()
    };
    Some(Memory { used: field("used_memory")?, max: field("maxmemory")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_numbers_are_found_among_those_of_similar_names() {
        let info = "# Memory\r\nused_memory_peak:9\r\nused_memory:1048576\r\nused_memory_human:1M\r\n\
                    maxmemory_human:4M\r\nmaxmemory:4194304\r\nmaxmemory_policy:noeviction\r\n";
        assert_eq!(read_info(info), Some(Memory { used: 1 << 20, max: 4 << 20 }));
        assert_eq!(read_info("used_memory:1\r\n"), None);
    }
}
