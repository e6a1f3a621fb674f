//! The Lua scripts: one transition per file, with its includes inserted. The transitions that carry most of the load
//! of many quiet destinations are also in a composed script, which runs many of them in one call.

use std::{
    fmt::Write,
    sync::{Arc, OnceLock},
};

use super::{contract::Contract, known_schema, transitions};
use faults::planted_lua::{self, text_of};
use redis_client::Script;

/// The files that scripts include, by name.
const INCLUDES: &[(&str, &str)] = &[
    ("arrivals", include_str!("../lua/include/arrivals.lua")),
    ("attempts", include_str!("../lua/include/attempts.lua")),
    ("bodies", include_str!("../lua/include/bodies.lua")),
    ("call", include_str!("../lua/include/call.lua")),
    ("changes", include_str!("../lua/include/changes.lua")),
    ("claim_fast", include_str!("../lua/include/claim_fast.lua")),
    ("clock", include_str!("../lua/include/clock.lua")),
    ("consumers", include_str!("../lua/include/consumers.lua")),
    ("counters", include_str!("../lua/include/counters.lua")),
    ("dead_letters", include_str!("../lua/include/dead_letters.lua")),
    ("epoch", include_str!("../lua/include/epoch.lua")),
    ("expect", include_str!("../lua/include/expect.lua")),
    ("hand_over", include_str!("../lua/include/hand_over.lua")),
    ("head", include_str!("../lua/include/head.lua")),
    ("heads", include_str!("../lua/include/heads.lua")),
    ("leases", include_str!("../lua/include/leases.lua")),
    ("lists", include_str!("../lua/include/lists.lua")),
    ("on_arrival", include_str!("../lua/include/on_arrival.lua")),
    ("out_of_line", include_str!("../lua/include/out_of_line.lua")),
    ("owner", include_str!("../lua/include/owner.lua")),
    ("pulled", include_str!("../lua/include/pulled.lua")),
    ("rate", include_str!("../lua/include/rate.lua")),
    ("read_ahead", include_str!("../lua/include/read_ahead.lua")),
    ("release_fast", include_str!("../lua/include/release_fast.lua")),
    ("remembered", include_str!("../lua/include/remembered.lua")),
    ("sources", include_str!("../lua/include/sources.lua")),
    ("reserve", include_str!("../lua/include/reserve.lua")),
    ("runs", include_str!("../lua/include/runs.lua")),
    ("schema", include_str!("../lua/include/schema.lua")),
    ("serial", include_str!("../lua/include/serial.lua")),
    ("settle", include_str!("../lua/include/settle.lua")),
    ("suspects", include_str!("../lua/include/suspects.lua")),
    ("tombstones", include_str!("../lua/include/tombstones.lua")),
    ("types", include_str!("../lua/include/types.lua")),
    ("waiting", include_str!("../lua/include/waiting.lua")),
    ("wake", include_str!("../lua/include/wake.lua")),
    ("withdrawn", include_str!("../lua/include/withdrawn.lua")),
];

/// The end of each composed script.
const BLOCKS: &str = include_str!("../lua/include/blocks.lua");

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
            /// Assembles each script from its text.
            fn assembled() -> Self {
                Scripts { $($name: transition(stringify!($name))),* }
            }

            /// All scripts, as a list.
            pub fn all(&self) -> Vec<&Script> {
                vec![$(&self.$name),*]
            }
        }

        /// The contracts of all transitions.
        pub const CONTRACTS: &[Contract] = &[$(transitions::$name::Args::CONTRACT),*];

        /// The Lua text of a transition.
        fn file_of(name: &str) -> &'static str {
            match name {
                $(stringify!($name) =>
                    include_str!(concat!("../lua/", stringify!($name), ".lua")),)*
                _ => "error('unknown transition')",
            }
        }
    };
}

transitions!(
    acknowledge,
    acquire_partition,
    audit,
    cancel_operation,
    claim,
    complete,
    complete_fast,
    consume,
    define,
    delete_destination,
    delete_destination_batch,
    discard,
    end_session,
    expire,
    extend,
    fail,
    forget_destination,
    halt,
    heartbeat,
    index,
    ingest,
    ingest_fast,
    ingest_ready_fast,
    init_epoch,
    migrate,
    note_operation,
    pause,
    postpone,
    reap,
    release,
    release_each_fast,
    release_fast,
    repair,
    repair_counters,
    repair_waiting,
    requeue,
    resign_partition,
    retry_head,
    step_back,
    token,
    topic,
    withdraw,
);

impl Scripts {
    /// Assembles the scripts, and composes the scripts that may run in one call.
    pub fn new() -> Self {
        let mut scripts = Scripts::assembled();
        let taking_in = composed(&["ingest_fast", "ingest_ready_fast", "ingest"]);
        scripts.ingest_fast.may_run_in(&taking_in, 1);
        scripts.ingest_ready_fast.may_run_in(&taking_in, 2);
        scripts.ingest.may_run_in(&taking_in, 3);
        let others = composed(&[
            "claim",
            "complete_fast",
            "complete",
            "release_fast",
            "release",
            "release_each_fast",
        ]);
        scripts.claim.may_run_in(&others, 1);
        scripts.complete_fast.may_run_in(&others, 2);
        scripts.complete.may_run_in(&others, 3);
        scripts.release_fast.may_run_in(&others, 4);
        scripts.release.may_run_in(&others, 5);
        scripts.release_each_fast.may_run_in(&others, 6);
        scripts
    }
}

impl Default for Scripts {
    fn default() -> Self {
        Scripts::new()
    }
}

fn transition(name: &'static str) -> Script {
    let text = named(name);
    let script = Script::new(name, on_its_own(name, &text, false));
    match asks_if_full(&text) {
        true => script.or_when_full(on_its_own(name, &text, true)),
        false => script,
    }
}

/// Scripts that must run although a key of the destination has the wrong type. They check the keys that they need
/// themselves. All other scripts check all their keys before they begin. A script that uses a stream fails with its
/// first command.
pub const CHECK_THEMSELVES: [&str; 11] = [
    "audit",
    "define",
    "delete_destination",
    "delete_destination_batch",
    "end_session",
    "forget_destination",
    "note_operation",
    "pause",
    "repair",
    "repair_counters",
    "repair_waiting",
];

/// Scripts that read the keys of each lane before they write, because this costs less than checks. Only if such a
/// read finds the wrong type do the checks search for the key.
const CHECK_LANES_LATE: [&str; 3] = ["complete", "ingest", "release"];

/// A script that reads all its keys before it writes. An idle deployment runs it more often than any other script.
const CHECK_LATE: &str = "acquire_partition";

/// The Lua function that finds the key with the wrong type after such a script has failed.
fn late_checks(name: &str) -> Option<String> {
    let contract = CONTRACTS.iter().find(|contract| contract.name == name)?;
    let checks = match name {
        CHECK_LATE => contract.checks(),
        _ if CHECK_LANES_LATE.contains(&name) => contract.checks_of_lists(),
        _ => return None,
    };
    Some(format!("function()\n{}{checks}end\n", contract.names()))
}

/// The text of a transition. Where its code begins, it gets the names of its keys and arguments, and the checks of
/// its keys.
fn named(name: &str) -> String {
    let text = text_of(name, file_of(name));
    let contract = CONTRACTS.iter().find(|contract| contract.name == name);
    let checks_of = |contract: &Contract| match () {
        () if name == CHECK_LATE || CHECK_THEMSELVES.contains(&name) => String::new(),
        () if CHECK_LANES_LATE.contains(&name) => contract.checks(),
        () => contract.checks() + &contract.checks_of_lists(),
    };
    let checks = contract.map(checks_of).unwrap_or_default();
    let is_head = |line: &&str| line.starts_with('#') || line.starts_with("--");
    let head: usize = text.split_inclusive('\n').take_while(is_head).map(str::len).sum();
    let (head, code) = text.split_at(head);
    [head, &contract.map(Contract::names).unwrap_or_default(), &checks, code].concat()
}

/// True if a transition does less when Redis has no memory left. Such a transition has two texts. Redis refuses the
/// first text when it is full, because that text lacks the flag allow-oom. The second text has the flag, and
/// `IS_FULL` is true in it.
fn asks_if_full(text: &str) -> bool {
    text.contains("IS_FULL")
}

fn beginning(first_line: &str, is_full: bool) -> String {
    let flags = if is_full { " flags=allow-oom" } else { "" };
    format!("{first_line}{flags}\nlocal IS_FULL = {is_full}\n")
}

/// A script that runs one transition. It copies KEYS and ARGV into variables that it may change.
fn on_its_own(name: &str, text: &str, is_full: bool) -> String {
    let (first_line, body) = text.split_once('\n').unwrap_or((text, ""));
    let beginning = match asks_if_full(text) {
        true => beginning(first_line, is_full),
        false => format!("{first_line}\n"),
    };
    let types = include("types");
    let code = match late_checks(name) {
        None => with_includes(body),
        Some(late) => {
            let (includes, body) = function_of(body);
            let includes: String = includes_of(includes).map(include).collect();
            format!("{includes}return run_checked({body}, {late})\n")
        }
    };
    format!("{beginning}local KEYS, ARGV = KEYS, ARGV\n{types}{code}")
}

/// A script that runs many blocks of these transitions (`lua/include/blocks.lua`). It contains each include once, and
/// each transition as a function.
fn composed(names: &[&'static str]) -> Arc<Script> {
    let texts: Vec<_> = names.iter().map(|name| (*name, named(name))).collect();
    let script = Script::new("blocks", composed_of(&texts, false));
    Arc::new(match texts.iter().any(|(_, text)| asks_if_full(text)) {
        true => script.or_when_full(composed_of(&texts, true)),
        false => script,
    })
}

fn composed_of(texts: &[(&str, String)], is_full: bool) -> String {
    let first_line = texts.first().and_then(|(_, text)| text.lines().next()).unwrap_or_default();
    let mut whole = format!(
        "{}\
         local all_keys, all_args, KEYS, ARGV = KEYS, ARGV, KEYS, ARGV\n\
         local function begin_block(keys, args) KEYS, ARGV = keys, args end\n\
         local transitions, lane_checks = {{}}, {{}}\n",
        beginning(first_line, is_full)
    );
    whole.push_str(&include("types"));
    let mut included: Vec<&str> = Vec::new();
    for name in texts.iter().flat_map(|(_, text)| includes_of(text)) {
        // In each list, an include comes after the includes that it needs. So this also holds in the joined list.
        if !included.contains(&name) {
            included.push(name);
            whole.push_str(&include(name));
        }
    }
    for (number, (name, text)) in (1..).zip(texts) {
        let body = function_of(text.split_once('\n').map_or("", |(_, body)| body)).1;
        let late = late_checks(name).unwrap_or_else(|| "nil".to_owned());
        let _ =
            writeln!(whole, "transitions['{number}'], lane_checks['{number}'] = {body}, {late}");
    }
    whole.push_str(&text_of("include/blocks", BLOCKS));
    whole
}

/// Returns the first line of a transition that names includes, and the transition as a function without that line. The
/// first includes come before all functions. The other includes are inside, where only a few calls reach them, because
/// each function that a call defines takes time.
fn function_of(body: &str) -> (&str, String) {
    let first = body.lines().find(|line| line.starts_with(INCLUDE)).unwrap_or_default();
    (first, format!("function()\n{}end", with_includes(&body.replacen(first, "", 1))))
}

/// The beginning of a line that names files to insert.
const INCLUDE: &str = "-- include: ";

/// The names in the first line of the form `-- include: a, b`.
fn includes_of(source: &str) -> impl Iterator<Item = &str> {
    let line = source.lines().find_map(|line| line.strip_prefix(INCLUDE));
    line.into_iter().flat_map(|names| names.split(", "))
}

/// After how long the suspects that a claim left out get their turn, in ms.
const SUSPECT_DELAY_MS: u64 = 1000;

/// The given time, or the time that a test has set instead.
fn unless_set(_by_test: &OnceLock<u64>, ms: u64) -> u64 {
    #[cfg(feature = "planted-bugs")]
    let ms = _by_test.get().copied().unwrap_or(ms);
    ms
}

/// The text of an include, with its constants.
fn include(name: &str) -> String {
    let mut whole = String::new();
    if name == "schema" {
        whole.push_str(&format!("local SCHEMA_KNOWN = {}\n", known_schema::known()));
    }
    if name == "call" {
        // How far ahead the deadline of a call may be.
        let ms = unless_set(&planted_lua::CALL_MS_MAX, 2 * super::CALL_US_MAX / 1000);
        whole.push_str(&format!("local CALL_MS_MAX = {ms}\n"));
    }
    if name == "suspects" {
        let ms = unless_set(&planted_lua::SUSPECT_DELAY_MS, SUSPECT_DELAY_MS);
        whole.push_str(&format!("local SUSPECT_DELAY_MS = {ms}\n"));
    }
    if name == "rate" {
        let us = unless_set(&planted_lua::SECOND_US, 1_000_000);
        whole.push_str(&format!("local SECOND_US = {us}\n"));
    }
    let file = INCLUDES.iter().find(|(known, _)| *known == name);
    let text = file.map_or("error('unknown include')", |(_, text)| text);
    whole.push_str(&text_of(&format!("include/{name}"), text));
    whole.push('\n');
    whole
}

/// Replaces each line `-- include: a, b` by those files.
fn with_includes(source: &str) -> String {
    let mut whole = String::with_capacity(source.len() * 2);
    for line in source.lines() {
        if line.starts_with(INCLUDE) {
            includes_of(line).for_each(|name| whole.push_str(&include(name)));
        } else {
            whole.push_str(line);
            whole.push('\n');
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

    /// The renewal of a partition's lease, a heartbeat or an extension must not wait until another call ends, and what
    /// is rare gains nothing from company.
    #[test]
    fn only_what_each_message_needs_waits_for_other_calls() {
        let scripts = Scripts::new();
        let all = scripts.all();
        let names = all.iter().filter(|script| script.may_wait()).map(|script| script.name);
        assert_eq!(
            names.collect::<Vec<_>>(),
            [
                "claim",
                "complete",
                "complete_fast",
                "ingest",
                "ingest_fast",
                "ingest_ready_fast",
                "release",
                "release_each_fast",
                "release_fast",
            ]
        );
    }
}
