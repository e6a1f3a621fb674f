//! The names of all keys in Redis. No other module builds a key name.

use std::{collections::HashMap, ops::Deref, sync::Arc};

use parking_lot::RwLock;

use domain::{DestinationName, Partitions, Sequence};

/// Builds key names: prefix, hash tag of the partition, noun.
#[derive(Debug, Clone)]
pub struct Keys {
    prefix: String,
    partitions: Partitions,
    /// The partitions of shards that were asked for: a search finds each.
    of_shards: Arc<RwLock<HashMap<DestinationName, u16>>>,
}

/// The most shards whose partitions are remembered.
const SHARDS_KNOWN_MAX: usize = 16_384;

/// The keys of one partition. Their hash tag puts all of them in one slot of a Redis Cluster.
#[derive(Debug, Clone)]
pub struct PartitionKeys {
    tag: String,
}

/// Defines a method for each key. The name of the key is the base, a colon and the noun.
macro_rules! nouns {
    ($base:ident $($(#[$doc:meta])* $key:ident = $noun:literal,)*) => {
        $($(#[$doc])* pub fn $key(&self) -> String {
            noun(&self.$base, $noun)
        })*
    };
}

/// The keys of an index that pods follow: all in one slot of a Redis Cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexKeys {
    base: String,
}

impl IndexKeys {
    nouns! { base
        /// The revision of each name's last change, including removed names.
        changes = "changes",
        /// The removed names, by the revision that removed them.
        removed = "removed",
    }

    /// The entry of each name.
    pub fn hash(&self) -> String {
        self.base.clone()
    }
}

/// The keys of one destination.
#[derive(Debug, Clone)]
pub struct DestinationKeys {
    /// The keys of its partition.
    pub partition: PartitionKeys,
    base: String,
}

/// Who may claim messages: Reseq's own processors, or the user's workers over the worker API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Claimers {
    /// `active:builtin`
    Builtin,
    /// `active:worker`
    Worker,
}

impl Claimers {
    /// The text in keys and scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Claimers::Builtin => "builtin",
            Claimers::Worker => "worker",
        }
    }
}

/// A key name that ends with this noun. Faster than `format!`: each message needs about fifty names.
fn noun(base: &str, noun: &str) -> String {
    [base, ":", noun].concat()
}

impl Keys {
    nouns! { prefix
        /// Settings that are fixed when the deployment first starts.
        meta = "meta",
        /// The definitions of removed destinations, by name.
        removed_definitions = "{index}:removed-definitions",
        /// When each token was last used.
        tokens_used = "{index}:tokens:used",
        /// The key that seals the sessions of the console.
        sessions = "{index}:sessions",
        /// The sessions of the console that have ended.
        sessions_ended = "{index}:sessions:ended",
        /// The audit log: the actions of operators.
        audit = "{index}:audit",
        /// The live pods.
        pods = "pods",
        /// The channel for changes of definitions.
        wake_definitions = "wake:definitions",
        /// The channel of clients that watch deliveries.
        wake_tail = "wake:tail",
        /// The channel for deliveries that a client watches.
        tail = "tail",
    }

    /// Builds names that begin with `prefix`, for this number of partitions.
    pub fn new(prefix: &str, partitions: u16) -> Self {
        Keys {
            prefix: prefix.to_owned(),
            partitions: Partitions::new(partitions),
            of_shards: Arc::default(),
        }
    }

    /// The prefix of all names.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The destination of this key, if it belongs to one.
    pub fn destination_of<'a>(&self, key: &'a [u8]) -> Option<&'a str> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?;
        let (_, rest) = rest.strip_prefix(":{")?.split_once("}:d:")?;
        rest.split(':').next()
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> u16 {
        self.partitions.count()
    }

    /// The index of all destinations.
    pub fn destinations(&self) -> IndexKeys {
        IndexKeys { base: format!("{}:{{index}}:destinations", self.prefix) }
    }

    /// The index of all topics.
    pub fn topics(&self) -> IndexKeys {
        IndexKeys { base: format!("{}:{{index}}:topics", self.prefix) }
    }

    /// The index of all tokens, by id.
    pub fn tokens(&self) -> IndexKeys {
        IndexKeys { base: format!("{}:{{index}}:tokens", self.prefix) }
    }

    /// The keys of partition `number`.
    pub fn partition(&self, number: u16) -> PartitionKeys {
        PartitionKeys { tag: format!("{}:{{{}}}", self.prefix, Partitions::tag(number)) }
    }

    /// The partition that holds all keys of a destination, or of this shard of one.
    pub fn partition_of(&self, name: &DestinationName) -> u16 {
        if name.shard() == 0 {
            return self.partitions.of(name);
        }
        if let Some(known) = self.of_shards.read().get(name) {
            return *known;
        }
        let partition = self.partitions.of(name);
        let mut known = self.of_shards.write();
        if known.len() >= SHARDS_KNOWN_MAX {
            known.clear();
        }
        known.insert(name.clone(), partition);
        partition
    }

    /// The keys of a destination.
    pub fn destination(&self, name: &DestinationName) -> DestinationKeys {
        let partition = self.partition(self.partition_of(name));
        let base = [&partition.tag, ":d:", name.as_str()].concat();
        DestinationKeys { partition, base }
    }
}

impl PartitionKeys {
    nouns! { tag
        /// The identity of the server, the epoch, and the takeover wait.
        epoch = "epoch",
        /// The sender that may release messages here.
        owner = "owner",
        /// Destinations with waiting messages for built-in transforms.
        active_builtin = "active:builtin",
        /// Destinations with waiting messages for workers.
        active_worker = "active:worker",
        /// Destinations whose owner must look at leases of consumers.
        consumers = "consumers",
        /// Destinations with a releasable head.
        releasable = "releasable",
        /// Destinations with pending withdrawals.
        withdrawing = "withdrawing",
        /// Leases and their deadlines.
        leases = "leases",
        /// Messages in backoff or delay, and when each is due.
        delayed = "delayed",
        /// The bulk operations of the partition's destinations, by the time at which they began.
        operations = "operations",
        /// The channel for new waiting messages.
        wake_waiting = "wake:waiting",
        /// The channel for heads that became releasable.
        wake_releasable = "wake:releasable",
        /// How many bytes of results the partition's destinations keep for producers.
        results = "results",
        /// The channel for results that producers wait for.
        wake_results = "wake:results",
        /// The channel for partitions that lost their owner.
        wake_owner = "wake:owner",
    }

    /// Destinations with waiting messages.
    pub fn active(&self, claimers: Claimers) -> String {
        [&self.tag, ":active:", claimers.as_str()].concat()
    }

    /// The last call of a call sequence, and its answer.
    pub fn call(&self, caller: &str) -> String {
        [&self.tag, ":calls:", caller].concat()
    }
}

/// The keys of the destination's partition are available, too.
impl Deref for DestinationKeys {
    type Target = PartitionKeys;

    fn deref(&self) -> &PartitionKeys {
        &self.partition
    }
}

impl DestinationKeys {
    nouns! { base
        /// Sequences that wait to be claimed.
        waiting = "waiting",
        /// Records by sequence.
        messages = "messages",
        /// Long bodies, stored out of line from their records.
        bodies = "bodies",
        /// Messages that were withdrawn while they waited, and are still in `waiting`.
        withdrawn = "withdrawn",
        /// Failed attempts, by sequence.
        attempts = "attempts",
        /// With ordering by key: lanes with a releasable head, and the earliest time for each.
        lanes = "lanes",
        /// Halted messages, and since when each is halted.
        halted = "halted",
        /// Pending withdrawals of messages that a processor or sender may be working on.
        withdrawals = "withdrawals",
        /// Sequences of the dead letters.
        dead_letters = "dead-letters",
        /// When each message became a dead letter.
        dead_lettered_at = "dead-lettered-at",
        /// The content of the dead letters.
        dead_letter_messages = "dead-letter-messages",
        /// Idempotency keys that are removed together with their messages.
        idempotency_keys = "idempotency-keys",
        /// The sequences of the last messages, by id.
        ids = "ids",
        /// The mark of each source.
        sources = "sources",
        /// The outcome of the last messages, by sequence.
        log = "log",
        /// The sequences in the log, in the order in which the messages left.
        log_order = "log:order",
        /// With ordering by key: the last sequence of recently used lanes that are empty now.
        previous = "previous",
        /// With delivery `pull`: for each lane, the lease of its consumer, and acknowledgements that are not settled
        /// yet.
        consumer_leases = "consumer-leases",
        /// Lanes that consumers hold, by the time at which the owner must look at them.
        consumer_lease_ends = "consumer-lease-ends",
        /// How many messages are being delivered now. For display; expires soon.
        delivering = "delivering",
        /// How many deliveries wait for a connection now. For display; expires soon.
        awaiting_connection = "awaiting-connection",
        /// When the next probe of a failing receiver begins. For display; expires soon.
        probe_at = "probe-at",
    }

    /// The hash of the destination: definition, last sequence, counters.
    pub fn hash(&self) -> String {
        self.base.clone()
    }

    /// A lane's messages in progress.
    pub fn in_progress(&self, lane: Option<&str>) -> String {
        self.of_lane("in-progress", lane)
    }

    /// A lane's messages that are processed and have not left yet.
    pub fn ready(&self, lane: Option<&str>) -> String {
        self.of_lane("ready", lane)
    }

    /// A lane's messages in progress, while a repair builds them again.
    pub fn rebuilt(&self, lane: Option<&str>) -> String {
        self.of_lane("rebuilt", lane)
    }

    /// The position that was stamped under an idempotency key.
    pub fn idempotency(&self, idempotency_key: &str) -> String {
        format!("{}:idempotency:{idempotency_key}", self.base)
    }

    /// The result of a message, for the producer that waits for it.
    pub fn result(&self, sequence: Sequence) -> String {
        format!("{}:result:{sequence}", self.base)
    }

    /// The state of a bulk operation.
    pub fn operation(&self, id: &str) -> String {
        format!("{}:operation:{id}", self.base)
    }

    /// A SCAN pattern that matches all keys of the destination except its hash, and no others.
    pub fn pattern(&self) -> String {
        let mut pattern = String::with_capacity(self.base.len() + 2);
        for character in self.base.chars() {
            if matches!(character, '*' | '?' | '[' | ']' | '\\') {
                pattern.push('\\');
            }
            pattern.push(character);
        }
        pattern + ":*"
    }

    /// The part of one of the destination's keys after its name: `waiting`, or `ready:<key>`.
    pub fn noun_of<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        key.strip_prefix(self.base.as_bytes())?.strip_prefix(b":")
    }

    fn of_lane(&self, noun: &str, lane: Option<&str>) -> String {
        match lane {
            None => self::noun(&self.base, noun),
            Some(key) => format!("{}:{noun}:{key}", self.base),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_of_a_destination_takes_its_prefix_as_it_is() {
        let keys = Keys::new("a*[b]?", 64).destination(&"erp".parse().unwrap());
        assert!(keys.pattern().starts_with("a\\*\\[b\\]\\?:{p"), "{}", keys.pattern());
        assert!(keys.pattern().ends_with("}:d:erp:*"), "{}", keys.pattern());
        let key = keys.ready(Some("k"));
        assert_eq!(keys.noun_of(key.as_bytes()), Some(&b"ready:k"[..]));
        assert_eq!(keys.noun_of(keys.hash().as_bytes()), None);
    }

    #[test]
    fn a_key_tells_its_destination() {
        let keys = Keys::new("reseq", 64);
        let of = |key: String| keys.destination_of(key.as_bytes()).map(str::to_owned);
        let erp = keys.destination(&"erp.eu-1".parse().unwrap());
        for key in [erp.hash(), erp.messages(), erp.in_progress(Some("a:d:b")), erp.log_order()] {
            assert_eq!(of(key).as_deref(), Some("erp.eu-1"));
        }
        for key in [keys.meta(), keys.pods(), erp.partition.epoch(), erp.partition.call("x:d:y")] {
            assert_eq!(of(key), None);
        }
    }

    #[test]
    fn braces_in_an_ordering_key_do_not_move_it_to_another_slot() {
        let keys = Keys::new("reseq", 64).destination(&"erp".parse().unwrap());
        let key = keys.in_progress(Some("{x}"));
        let first_tag = &key[key.find('{').unwrap()..=key.find('}').unwrap()];
        assert!(first_tag.starts_with("{p"), "{key}");
    }
}
