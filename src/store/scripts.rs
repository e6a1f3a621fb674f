//! The Lua scripts: one transition a file, with what they share put in.

use redis::Script;

use super::schema;
use crate::faults::planted_lua::text_of;

/// One script, ready to be called.
#[derive(Debug)]
pub struct Transition {
    /// The name of its file, its metric and its span.
    pub name: &'static str,
    /// What Redis runs.
    pub script: Script,
}

/// The files that scripts include, by name.
const INCLUDES: [(&str, &str); 11] = [
    ("attempts", include_str!("../../lua/include/attempts.lua")),
    ("call", include_str!("../../lua/include/call.lua")),
    ("clock", include_str!("../../lua/include/clock.lua")),
    ("epoch", include_str!("../../lua/include/epoch.lua")),
    ("expect", include_str!("../../lua/include/expect.lua")),
    ("head", include_str!("../../lua/include/head.lua")),
    ("leases", include_str!("../../lua/include/leases.lua")),
    ("owner", include_str!("../../lua/include/owner.lua")),
    ("schema", include_str!("../../lua/include/schema.lua")),
    ("serial", include_str!("../../lua/include/serial.lua")),
    ("waiting", include_str!("../../lua/include/waiting.lua")),
];

macro_rules! transitions {
    ($($name:ident),* $(,)?) => {
        /// All scripts, by name.
        #[derive(Debug)]
        pub struct Scripts {
            $(
                #[doc = concat!("`lua/", stringify!($name), ".lua`")]
                pub $name: Transition,
            )*
        }

        impl Scripts {
            /// Puts the scripts together.
            pub fn new() -> Self {
                Scripts { $($name: transition(
                    stringify!($name),
                    include_str!(concat!("../../lua/", stringify!($name), ".lua")),
                )),* }
            }

            /// Each of them.
            pub fn all(&self) -> Vec<&Transition> {
                vec![$(&self.$name),*]
            }
        }
    };
}

transitions!(
    ingest, claim, extend, complete, fail, unclaim, reap, own, disown, release, postpone, halt,
    withdraw, retry, discard, pause, define, index, remove, purge, forget, topic, migrate, found,
    beat,
);

impl Default for Scripts {
    fn default() -> Self {
        Scripts::new()
    }
}

fn transition(name: &'static str, source: &str) -> Transition {
    Transition { name, script: Script::new(&with_includes(&text_of(name, source))) }
}

/// The source, with its line `-- include: a, b` replaced by those files.
fn with_includes(source: &str) -> String {
    let mut whole = String::with_capacity(source.len() * 2);
    for line in source.lines() {
        match line.strip_prefix("-- include: ") {
            Some(names) => {
                for name in names.split(", ") {
                    if name == "schema" {
                        whole.push_str(&format!("local SCHEMA_KNOWN = {}\n", schema::known()));
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
            assert!(!transition.script.get_hash().is_empty());
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
