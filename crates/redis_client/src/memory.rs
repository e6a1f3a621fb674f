//! Memory use of Redis.

use super::{
    client::RedisClient,
    error::{ClientError, unexpected},
};

/// Memory use and limit of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// `used_memory`, in bytes.
    pub used: u64,
    /// `maxmemory`, in bytes; 0: no limit.
    pub max: u64,
}

impl Memory {
    /// The used fraction of the limit; 0 without a limit.
    pub fn share(&self) -> f64 {
        if self.max == 0 { 0.0 } else { self.used as f64 / self.max as f64 }
    }

    /// True if at least this percentage of the limit is used. Always false without a limit, or at 0 %.
    pub fn is_at(&self, percent: u8) -> bool {
        percent > 0
            && self.max > 0
            && u128::from(self.used) * 100 >= u128::from(self.max) * u128::from(percent)
    }
}

impl RedisClient {
    /// Memory use and limit of the server that holds this key.
    pub async fn memory_at(&self, key: &str) -> Result<Memory, ClientError> {
        let (info,): (String,) = self.query_at(key.as_bytes(), &ask_memory()).await?;
        read_info(&info).ok_or_else(|| unexpected("INFO memory"))
    }
}

fn ask_memory() -> redis::Pipeline {
    let mut pipe = redis::pipe();
    pipe.cmd("INFO").arg("memory");
    pipe
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
