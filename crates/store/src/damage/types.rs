//! The type that each key should have.

use crate::keys::Keys;

/// True if a key may have this type, or if its right type is not known. `none`: no such key.
pub(super) fn fits(keys: &Keys, key: &str, kind: &str) -> bool {
    kind == "none" || expected(keys, key).is_none_or(|expected| expected.contains(&kind))
}

/// The types that a key may have; `None` if its name is unknown.
pub(super) fn expected(keys: &Keys, key: &str) -> Option<&'static [&'static str]> {
    let rest = key.strip_prefix(keys.prefix())?.strip_prefix(':')?;
    let Some((_, noun)) = rest.split_once("}:") else {
        return match rest {
            "meta" => Some(&["hash"]),
            "pods" => Some(&["zset"]),
            _ => None,
        };
    };
    if let Some(of_destination) = noun.strip_prefix("d:") {
        let Some((_, noun)) = of_destination.split_once(':') else { return Some(&["hash"]) };
        // A lane's key may hold anything, colons too.
        let (noun, rest) = noun.split_once(':').map_or((noun, None), |(a, b)| (a, Some(b)));
        return match (noun, rest) {
            ("waiting", None) => Some(&["list", "zset"]),
            ("withdrawn", None) => Some(&["set"]),
            (
                "messages"
                | "bodies"
                | "attempts"
                | "withdrawals"
                | "dead-letter-messages"
                | "idempotency-keys"
                | "log"
                | "consumer-leases",
                None,
            ) => Some(&["hash"]),
            ("log", Some("order")) => Some(&["list"]),
            (
                "halted"
                | "dead-letters"
                | "dead-lettered-at"
                | "lanes"
                | "previous"
                | "ids"
                | "consumer-lease-ends",
                None,
            ) => Some(&["zset"]),
            ("operation", Some(_)) => Some(&["hash"]),
            ("in-progress" | "ready", _) => Some(&["zset"]),
            ("idempotency", Some(_)) | ("delivering" | "awaiting-connection", None) => {
                Some(&["string"])
            }
            _ => None,
        };
    }
    match noun {
        "epoch" | "destinations" | "topics" | "tokens" | "tokens:used" | "sessions" => {
            Some(&["hash"])
        }
        "owner" => Some(&["string"]),
        "audit" | "sessions:ended" => Some(&["stream"]),
        "active:builtin" | "active:worker" | "releasable" | "withdrawing" | "consumers"
        | "leases" | "delayed" | "operations" => Some(&["zset"]),
        "destinations:changes"
        | "destinations:removed"
        | "topics:changes"
        | "topics:removed"
        | "tokens:changes"
        | "tokens:removed" => Some(&["zset"]),
        noun if noun.starts_with("calls:") => Some(&["string"]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Claimers;

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
            (partition.epoch(), "hash"),
            (partition.owner(), "string"),
            (partition.active(Claimers::Worker), "zset"),
            (partition.leases(), "zset"),
            (partition.call("pod:claim:erp"), "string"),
            (partition.operations(), "zset"),
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
            (erp.consumer_leases(), "hash"),
            (erp.consumer_lease_ends(), "zset"),
            (erp.in_progress(None), "zset"),
            (erp.in_progress(Some("a:order")), "zset"),
            (erp.ready(Some("")), "zset"),
            (erp.idempotency("k:1"), "string"),
        ] {
            assert!(fits(&keys, &key, kind) && fits(&keys, &key, "none"), "{key}");
            assert!(!fits(&keys, &key, "stream"), "{key}");
        }
        assert!(fits(&keys, &keys.audit(), "stream") && !fits(&keys, &keys.audit(), "list"));
        assert!(fits(&keys, "another", "stream"));
    }
}
