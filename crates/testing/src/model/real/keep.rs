//! Saves and restores states: copies the whole keyspace to other logical databases of the same
//! server.

use std::{collections::BTreeMap, sync::LazyLock};

use redis::Script;

use super::Real;
use crate::model::{op::CatalogEntry, state::Name};

/// Number of logical databases of the test's server. One is in use, the others keep states.
pub const DATABASES: usize = 128;

/// Copies all keys from one logical database to another, which is emptied first.
const COPY: &str = r"
local from, to = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('SELECT', to)
redis.call('FLUSHDB')
redis.call('SELECT', from)
for _, key in ipairs(redis.call('KEYS', '*')) do
  -- No state is to be over only because the test was slow: PX cleans up, and decides nothing.
  redis.call('PERSIST', key)
  redis.call('COPY', key, key, 'DB', to)
end";

/// A digest of all keys in which times and epochs are only past or future: equal for states that
/// differ only in the time of day.
const DIGEST: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local digits = string.rep('%d', 13)
local function when(ms) return tonumber(ms) <= now and 'past' or 'future' end
local function plain(text)
  return (string.gsub(string.gsub(text, digits, when), '\207%z%z\1.....', 'epoch'))
end
local all = {}
local keys = redis.call('KEYS', '*')
table.sort(keys)
for _, key in ipairs(keys) do
  -- What a pod halts in its own name, of what it could not read, is under a name that is new each time.
  local is_anew = string.find(key, ':damaged:', 1, true)
  local kind = redis.call('TYPE', key).ok
  local content
  if is_anew then content = {}
  elseif kind == 'hash' then
    content = redis.call('HGETALL', key)
    local fields = {}
    for i = 1, #content, 2 do fields[#fields + 1] = content[i] .. '=' .. plain(content[i + 1]) end
    table.sort(fields)
    content = fields
  elseif kind == 'zset' then
    content = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for i = 2, #content, 2 do
      if string.match(content[i], '^' .. digits .. '$') then
        content[i - 1], content[i] = content[i - 1] .. when(content[i]), ''
      end
    end
    -- Two entries that differ only in their times may come in either order.
    table.sort(content)
  elseif kind == 'list' then
    content = redis.call('LRANGE', key, 0, -1)
  else
    -- How often an owner has renewed its lease does not matter.
    local owner = string.match(key, ':owner$') and string.match(redis.call('GET', key), '^%S+')
    content = {owner or plain(redis.call('GET', key))}
  end
  if not is_anew then all[#all + 1] = key .. '\n' .. table.concat(content, '\n') end
end
return redis.sha1hex(table.concat(all, '\n\n'))";

/// The data that belongs to a saved keyspace.
#[derive(Debug, Clone)]
pub struct Kept {
    epochs: BTreeMap<u64, u64>,
    epoch: u64,
    versions: BTreeMap<(Name, u64), u64>,
    secrets: BTreeMap<String, String>,
    seen_owner: String,
    late: BTreeMap<usize, u64>,
    known: BTreeMap<Name, CatalogEntry>,
}

impl Real {
    /// Saves the keyspace in this database (from 1).
    pub async fn save(&mut self, at: usize) -> Kept {
        self.copy(0, at).await;
        Kept {
            epochs: self.epochs.clone(),
            epoch: self.epoch,
            versions: self.versions.clone(),
            secrets: self.secrets.clone(),
            seen_owner: self.seen_owner.clone(),
            late: self.late.clone(),
            known: self.known.clone(),
        }
    }

    /// Restores a saved state, as if nothing had happened since.
    pub async fn restore(&mut self, at: usize, kept: &Kept) {
        self.copy(at, 0).await;
        self.store.forget_epochs();
        let Kept { epochs, epoch, versions, secrets, seen_owner, late, known } = kept.clone();
        (self.epoch, self.seen_owner, self.late) = (epoch, seen_owner, late);
        (self.epochs, self.versions, self.secrets, self.known) = (epochs, versions, secrets, known);
        self.read.clear();
    }

    /// Redis loses all changes since the save, and becomes another server. The test still remembers the changes.
    pub async fn forget(&mut self, at: usize, kept: &Kept) {
        self.copy(at, 0).await;
        (self.seen_owner, self.late) = (kept.seen_owner.clone(), kept.late.clone());
        let key = self.keys.partition(0).epoch();
        self.run::<u64>(&["HSET", &key, "server", "0123"]).await;
        // A real restart takes longer than one tick of the clock.
        let last = self.epochs.values().max().copied().unwrap_or_default();
        while self.store.server_time_ms().await.unwrap() <= last {}
    }

    /// A digest that is equal for states that differ only in the time of day.
    pub async fn plain_digest(&mut self) -> String {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(DIGEST));
        SCRIPT.prepare_invoke().invoke_async(&mut self.connection).await.unwrap()
    }

    async fn copy(&mut self, from: usize, to: usize) {
        assert!(from.max(to) < DATABASES, "there are {DATABASES} places");
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(COPY));
        let mut call = SCRIPT.prepare_invoke();
        call.arg(from).arg(to);
        call.invoke_async::<()>(&mut self.connection).await.unwrap();
    }
}
