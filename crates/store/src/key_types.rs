//! The type that each key should have.

use crate::keys::Keys;

/// The types of keys. For each type, the names that contracts give its keys.
const TYPES: [(&str, &str); 5] = [
    (
        "hash",
        "attempts bodies consumer_leases dead_letter_messages destination destinations epoch idempotency_keys log \
         messages meta operation removed_definitions results sessions sources tokens topics used withdrawals",
    ),
    ("list", "log_order"),
    ("set", "withdrawn"),
    ("string", "awaiting_connection call delivering owner probe_at result seen"),
    (
        "zset",
        "active active_builtin active_worker changes consumer_lease_ends consumers dead_lettered_at dead_letters \
         delayed halted ids in_progress lanes leases operations pods previous ready releasable removed withdrawing",
    ),
];

/// The type of the key that contracts give this name; `None` for a channel, a stream, or a key of any type. For
/// `waiting` the answer is "waiting", because its type depends on the destination: a list, or without ordering a
/// sorted set.
pub(crate) fn type_of(name: &str) -> Option<&'static str> {
    if name == "waiting" {
        return Some("waiting");
    }
    let is_of = |names: &str| names.split(' ').any(|one| one == name);
    TYPES.iter().find(|(_, names)| is_of(names)).map(|(kind, _)| *kind)
}

/// True if a key may have this type, or if its right type is unknown. The type `none` means that the key does not
/// exist.
pub(crate) fn fits(keys: &Keys, key: &str, kind: &str) -> bool {
    kind == "none"
        || match expected(keys, key) {
            Some("waiting") => ["list", "zset"].contains(&kind),
            expected => expected.is_none_or(|expected| expected == kind),
        }
}

/// Like [`type_of`], but takes the full name of a key in Redis.
pub(crate) fn expected(keys: &Keys, key: &str) -> Option<&'static str> {
    let rest = key.strip_prefix(keys.prefix())?.strip_prefix(':')?;
    let noun = rest.split_once("}:").map_or(rest, |(_, noun)| noun);
    let noun = match noun.strip_prefix("d:") {
        Some(of_destination) => of_destination.split_once(':').map_or("destination", |(_, n)| n),
        None => noun,
    };
    // The rest may contain any text, even colons: a lane's key, an idempotency key, a caller, an id.
    let name = match noun.split(':').next() {
        Some("in-progress") => "in_progress",
        Some("ready") => "ready",
        Some("idempotency") => "seen",
        Some("operation") => "operation",
        Some("result") => "result",
        Some("calls") => "call",
        _ => match noun {
            "tokens:used" => "used",
            _ if noun.ends_with(":changes") => "changes",
            _ if noun.ends_with(":removed") => "removed",
            _ => return type_of(&noun.replace(['-', ':'], "_")),
        },
    };
    type_of(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{keys::Claimers, scripts::CONTRACTS};

    #[test]
    fn each_key_has_a_type() {
        let keys = Keys::new("reseq", 64);
        let erp = keys.destination(&"erp".parse().unwrap());
        let partition = &erp.partition;
        for (key, kind) in [
            (keys.meta(), "hash"),
            (keys.pods(), "zset"),
            (keys.destinations().hash(), "hash"),
            (keys.topics().removed(), "zset"),
            (keys.tokens_used(), "hash"),
            (partition.epoch(), "hash"),
            (partition.owner(), "string"),
            (partition.active(Claimers::Worker), "zset"),
            (partition.leases(), "zset"),
            (partition.call("pod:claim:erp"), "string"),
            (partition.operations(), "zset"),
            (partition.results(), "hash"),
            (erp.operation("7"), "hash"),
            (erp.hash(), "hash"),
            (erp.waiting(), "list"),
            (erp.waiting(), "zset"),
            (erp.messages(), "hash"),
            (erp.bodies(), "hash"),
            (erp.withdrawn(), "set"),
            (erp.log(), "hash"),
            (erp.log_order(), "list"),
            (erp.dead_lettered_at(), "zset"),
            (erp.ids(), "zset"),
            (erp.sources(), "hash"),
            (erp.consumer_leases(), "hash"),
            (erp.consumer_lease_ends(), "zset"),
            (erp.in_progress(None), "zset"),
            (erp.in_progress(Some("a:order")), "zset"),
            (erp.ready(Some("")), "zset"),
            (erp.idempotency("k:1"), "string"),
            (erp.result(7), "string"),
        ] {
            assert!(fits(&keys, &key, kind) && fits(&keys, &key, "none"), "{key}");
            assert!(!fits(&keys, &key, "stream"), "{key}");
        }
        assert!(fits(&keys, "another", "stream"));
    }

    /// A transition checks the types of its keys, so the type of each must be known.
    #[test]
    fn each_key_of_a_contract_has_a_type() {
        let of_lists = CONTRACTS.iter().flat_map(|contract| contract.lists);
        let of_lists = of_lists.flat_map(|list| match list.keys {
            ["key"] => std::slice::from_ref(&list.name),
            keys => keys,
        });
        let names = CONTRACTS.iter().flat_map(|contract| contract.keys).chain(of_lists);
        let unknown = names.filter(|name| !name.starts_with("wake_") && type_of(name).is_none());
        // Streams; and keys of any type, which a removal finds.
        let known = ["audit", "ended", "left_over"];
        assert_eq!(unknown.filter(|name| !known.contains(name)).count(), 0);
    }
}
