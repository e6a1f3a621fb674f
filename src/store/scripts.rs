//! The Lua scripts: one transition per file, with its includes inserted.

use super::{commands, known_schema};
use crate::{faults::planted_lua::text_of, redis_client::Script};

/// The files that scripts include, by name.
const INCLUDES: [(&str, &str); 22] = [
    ("attempts", include_str!("../../lua/include/attempts.lua")),
    ("bodies", include_str!("../../lua/include/bodies.lua")),
    ("call", include_str!("../../lua/include/call.lua")),
    ("changes", include_str!("../../lua/include/changes.lua")),
    ("clock", include_str!("../../lua/include/clock.lua")),
    ("damage", include_str!("../../lua/include/damage.lua")),
    ("epoch", include_str!("../../lua/include/epoch.lua")),
    ("expect", include_str!("../../lua/include/expect.lua")),
    ("findings", include_str!("../../lua/include/findings.lua")),
    ("head", include_str!("../../lua/include/head.lua")),
    ("leases", include_str!("../../lua/include/leases.lua")),
    ("gone", include_str!("../../lua/include/gone.lua")),
    ("dead_letters", include_str!("../../lua/include/dead_letters.lua")),
    ("lists", include_str!("../../lua/include/lists.lua")),
    ("portions", include_str!("../../lua/include/portions.lua")),
    ("owner", include_str!("../../lua/include/owner.lua")),
    ("schema", include_str!("../../lua/include/schema.lua")),
    ("serial", include_str!("../../lua/include/serial.lua")),
    ("unnamed", include_str!("../../lua/include/unnamed.lua")),
    ("waiting", include_str!("../../lua/include/waiting.lua")),
    ("wake", include_str!("../../lua/include/wake.lua")),
    ("withdrawn", include_str!("../../lua/include/withdrawn.lua")),
];

macro_rules! transitions {
    ($($name:ident),* $(,)?) => {
        /// All scripts, by name.
        #[derive(Debug)]
        pub struct Scripts {
            $(
                #[doc = concat!("`lua/", stringify!($name), ".lua`")]
                pub $name: Script,
            )*
        }

        impl Scripts {
            /// Assembles the scripts.
            pub fn new() -> Self {
                Scripts { $($name: transition(
                    stringify!($name),
                    include_str!(concat!("../../lua/", stringify!($name), ".lua")),
                )),* }
            }

            /// All scripts, as a list.
            pub fn all(&self) -> Vec<&Script> {
                vec![$(&self.$name),*]
            }
        }
    };
}

transitions!(
    ingest,
    claim,
    extend,
    complete,
    fail,
    requeue,
    reap,
    acquire_partition,
    resign_partition,
    release,
    postpone,
    halt,
    withdraw,
    retry_head,
    repair,
    repair_keys,
    repair_traces,
    repair_counters,
    discard,
    expire,
    pause,
    define,
    index,
    remove,
    remove_batch,
    forget,
    topic,
    token,
    migrate,
    init_epoch,
    heartbeat,
    note_operation,
    cancel_operation,
);

impl Default for Scripts {
    fn default() -> Self {
        Scripts::new()
    }
}

fn transition(name: &'static str, source: &str) -> Script {
    Script::new(name, with_rights(&with_includes(&text_of(name, source))))
}

/// Inserts the check of rights after the first line, which only Redis reads (`#!lua`).
fn with_rights(whole: &str) -> String {
    let (first, rest) = whole.split_once('\n').unwrap_or((whole, ""));
    format!("{first}\n{}{rest}", commands::preamble(rest))
}

/// Replaces the line `-- include: a, b` with those files.
fn with_includes(source: &str) -> String {
    let mut whole = String::with_capacity(source.len() * 2);
    for line in source.lines() {
        match line.strip_prefix("-- include: ") {
            Some(names) => {
                for name in names.split(", ") {
                    if name == "schema" {
                        whole
                            .push_str(&format!("local SCHEMA_KNOWN = {}\n", known_schema::known()));
                    }
                    let file = INCLUDES.iter().find(|(known, _)| *known == name);
                    let text = file.map_or("error('unknown include')", |(_, text)| text);
                    whole.push_str(&text_of(&format!("include/{name}"), text));
                    whole.push('\n');
                }
            }
            None => {
                whole.push_str(line);
                whole.push('\n');
            }
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_include_is_known() {
        for transition in Scripts::new().all() {
            assert!(!transition.hash().is_empty());
        }
        let sources = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/lua")).unwrap();
        for entry in sources {
            let path = entry.unwrap().path();
            if path.is_file() {
                let whole = with_includes(&std::fs::read_to_string(&path).unwrap());
                assert!(!whole.contains("unknown include"), "{}", path.display());
            }
        }
    }
}
