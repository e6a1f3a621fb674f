//! Checks the headers of the Lua files, and the contracts of the transitions, against the Lua code.

use crate::support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use store::{contract::Contract, rights_needed, scripts::CONTRACTS};
use support::{
    generated,
    source::{code_of, files, root, shown},
};

/// The parsed header of a script.
struct Header {
    name: String,
    first_line: String,
    purpose: String,
    sections: BTreeMap<&'static str, String>,
    includes: Vec<String>,
    code: String,
}

const SECTIONS: [&str; 2] = ["Returns:", "Errors:"];

impl Header {
    fn read(path: &Path) -> Header {
        let text = fs::read_to_string(path).unwrap();
        let first_line = text.lines().next().unwrap_or_default().to_owned();
        let head = text.lines().skip(1).take_while(|line| line.starts_with("--"));
        let mut header = Header {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            first_line,
            purpose: String::new(),
            sections: BTreeMap::new(),
            includes: Vec::new(),
            code: without_comments(&text),
        };
        let mut section = None;
        for line in head.map(|line| line[2..].trim_start_matches(' ')) {
            if let Some(names) = line.strip_prefix("include: ") {
                header.includes.extend(names.split(", ").map(str::to_owned));
                section = Some("include");
            } else if let Some(start) = SECTIONS.iter().find(|start| line.starts_with(*start)) {
                section = Some(start);
                header.sections.insert(start, line[start.len()..].to_owned() + "\n");
            } else if line.starts_with("Sent again") {
                section = Some("include");
            } else if section.is_none() {
                header.purpose.push_str(line);
            } else if let Some(text) = section.and_then(|s| header.sections.get_mut(s)) {
                text.push_str(&format!("{line}\n"));
            }
        }
        let later = text.lines().skip_while(|line| line.starts_with('#') || line.starts_with("--"));
        for names in later.filter_map(|line| line.strip_prefix("-- include: ")) {
            header.includes.extend(names.split(", ").map(str::to_owned));
        }
        header
    }

    fn documented_errors(&self) -> BTreeSet<String> {
        let names = self.sections["Errors:"].split(|c: char| !c.is_ascii_uppercase() && c != '_');
        names.filter(|name| name.len() > 3).map(str::to_owned).collect()
    }

    /// The errors in the script's own code and in its includes.
    fn errors(&self) -> BTreeSet<String> {
        let mut errors = BTreeSet::new();
        for reply in self.whole_code().split("error_reply(").skip(1) {
            let (_, named) = reply.split_once('\'').expect("an error has a name");
            let name = named.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_');
            let name: String = name.collect();
            // If an error has only one word, Redis takes that word for the text, and uses the code ERR.
            let has_text = named[name.len()..].starts_with(' ');
            assert!(has_text, "{}: {name} needs a text behind its name", self.name);
            errors.insert(name);
        }
        errors
    }

    fn contract(&self) -> &'static Contract {
        let contract = CONTRACTS.iter().find(|contract| contract.name == self.name);
        contract.expect("each transition has a contract")
    }
}

fn without_comments(lua: &str) -> String {
    let code = lua.lines().filter(|line| !line.trim_start().starts_with("--"));
    code.map(|line| line.split(" -- ").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn headers() -> Vec<Header> {
    let paths = files("lua", "lua").into_iter().filter(|path| !shown(path).contains("include"));
    paths.map(|path| Header::read(&path)).collect()
}

#[test]
fn the_header_of_each_script_says_what_its_code_does() {
    let mapped = fs::read_to_string(root().join("crates/store/src/error.rs")).unwrap();
    let all = headers();
    assert!(all.len() >= 16);
    for header in &all {
        let name = &header.name;
        assert!(header.purpose.starts_with(&format!("{name}: ")), "{name}: say what it is for");
        for section in SECTIONS {
            assert!(header.sections.contains_key(section), "{name}: {section} is missing");
        }
        // Scripts that drain must run even when memory is full; scripts that store new messages
        // must not. Scripts that check for full memory have a second text, with the flag.
        let takes_in = name.starts_with("ingest") || header.code.contains("IS_FULL");
        let expected = if takes_in { "#!lua" } else { "#!lua flags=allow-oom" };
        assert_eq!(&header.first_line, expected, "{name}");

        for given in names_of(header.contract()) {
            assert!(has_word(&header.code, &given), "{name}: nothing uses {given}");
        }
        let errors = header.errors();
        assert_eq!(
            errors,
            header.documented_errors(),
            "{name}: errors in the code, and in the header"
        );
        for error in errors {
            assert!(mapped.contains(&format!("\"{error}\" =>")), "{name}: {error} is not mapped");
        }
    }
}

/// The names that a contract gives in Lua.
fn names_of(contract: &Contract) -> Vec<String> {
    let keys = contract.keys.iter().map(|key| format!("key_{key}"));
    let lists = contract.lists.iter().map(|list| list.name);
    keys.chain(contract.args.iter().copied().chain(lists).map(str::to_owned)).collect()
}

fn has_word(code: &str, word: &str) -> bool {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    code.split(|c| !is_of_word(c)).any(|one| one == word)
}

impl Header {
    /// The code of its includes, then its own code.
    fn whole_code(&self) -> String {
        let include = |name: &String| {
            without_comments(
                &fs::read_to_string(root().join(format!("lua/include/{name}.lua"))).unwrap(),
            )
        };
        let parts = self.includes.iter().map(include).chain([self.code.clone()]);
        parts.collect::<Vec<_>>().join("\n")
    }
}

/// Who else uses a key.
const OTHERS: [(&str, &str); 7] = [
    ("reseq:{index}:sessions", "any pod that finds none"),
    ("reseq:meta", "the first start, `reseq migrate`"),
    ("reseq:pods", "a stopping pod (its own entries)"),
    ("…:d:<dest>:rebuilt[:<key>]", "`reseq repair`"),
    ("…:d:<dest>:delivering", "the owner, each second"),
    ("…:d:<dest>:awaiting-connection", "the owner, each second"),
    ("…:d:<dest>:probe-at", "the owner, each second"),
];

const KEYS_PAGE: &str = "docs/reference/redis-keys.md";

/// Keys whose name in contracts differs from their noun.
const NOUNS: [(&str, &str); 13] = [
    ("call", "calls:<caller>"),
    ("destination", "d:<dest>"),
    ("active", "active:builtin"),
    ("operation", "operation:<id>"),
    ("result", "result:<sequence>"),
    ("seen", "idempotency:<idempotency key>"),
    ("in_progress", "in-progress[:<key>]"),
    ("ready", "ready[:<key>]"),
    ("log_order", "log:order"),
    ("active_builtin", "active:builtin"),
    ("active_worker", "active:worker"),
    ("ended", "sessions:ended"),
    ("used", "tokens:used"),
];

/// True if a cell of the reference is about the key that a contract gives this name.
fn is_about(cell: &str, name: &str) -> bool {
    let noun = NOUNS.iter().find(|(key, _)| *key == name);
    let noun = noun.map_or_else(|| name.replace('_', "-"), |(_, noun)| (*noun).to_owned());
    cell.split('`').skip(1).step_by(2).any(|key| key.ends_with(&format!(":{noun}")))
}

#[test]
fn reference_says_which_transitions_use_each_key() {
    let mut rows = generated::rows(KEYS_PAGE, "keys");
    let mut users = vec![BTreeSet::new(); rows.len()];
    for contract in CONTRACTS {
        // Repairs may use every key; the page says so once.
        if contract.name.starts_with("repair") {
            continue;
        }
        let of_lists = contract.lists.iter().flat_map(|list| match list.keys {
            ["key"] => vec![list.name],
            keys => keys.to_vec(),
        });
        // Skip channels, and the leftover keys of a destination.
        let is_key = |name: &&str| !name.starts_with("wake_") && *name != "left_over";
        for name in contract.keys.iter().copied().chain(of_lists).filter(is_key) {
            let about: Vec<usize> =
                (0..rows.len()).filter(|row| is_about(&rows[*row][0], name)).collect();
            let [row] = about[..] else {
                panic!("{}: {name} is in {} rows, not in one", contract.name, about.len())
            };
            users[row].insert(contract.name.to_owned());
        }
    }
    for (row, users) in rows.iter_mut().zip(users) {
        let other = OTHERS.iter().find(|(key, _)| row[0] == format!("`{key}`"));
        let users: Vec<String> =
            users.into_iter().chain(other.map(|(_, who)| (*who).to_owned())).collect();
        assert!(!users.is_empty(), "nothing uses {}", row[0]);
        row.truncate(3);
        row.push(users.join(", "));
    }
    let head = ["key", "type", "holds", "used by"];
    generated::check(KEYS_PAGE, "keys", &generated::table(&head, rows));
}

#[test]
fn the_reference_lists_each_script_with_its_errors() {
    let mut rows = generated::rows(KEYS_PAGE, "scripts");
    let headers = headers();
    let listed: BTreeSet<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    let names: Vec<String> =
        headers.iter().map(|header| format!("`lua/{}.lua`", header.name)).collect();
    assert_eq!(listed, names.iter().map(String::as_str).collect(), "the scripts in {KEYS_PAGE}");
    for row in &mut rows {
        let at = names.iter().position(|name| *name == row[0]).unwrap();
        // Every script that touches a partition has this error; the page says so once.
        let mut errors = headers[at].documented_errors();
        errors.remove("NEWER_SCHEMA");
        row.truncate(3);
        row.push(errors.into_iter().collect::<Vec<_>>().join(", "));
    }
    let head = ["script", "purpose", "called by", "errors"];
    generated::check(KEYS_PAGE, "scripts", &generated::table(&head, rows));
}

/// The functions that an include defines.
fn functions_of(code: &str) -> Vec<String> {
    let names = code.split("local function ").skip(1);
    names.filter_map(|rest| rest.split_once('(')).map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn each_script_includes_what_it_calls_and_nothing_else() {
    let includes: Vec<(String, String)> = files("lua/include", "lua")
        .iter()
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, without_comments(&fs::read_to_string(path).unwrap()))
        })
        .collect();
    assert!(includes.len() >= 10);
    let calls = |code: &str, name: &str| {
        code.contains(&format!("pcall({name},"))
            || code.match_indices(&format!("{name}(")).any(|(at, _)| {
                let before = code[..at].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
                    && !code[..at].ends_with("local function ")
            })
    };
    for header in headers() {
        let position = |name: &str| header.includes.iter().position(|other| other == name);
        for (include, code) in &includes {
            let functions = functions_of(code);
            let is_called = |code: &str| functions.iter().any(|name| calls(code, name));
            let mut users: Vec<&str> = Vec::new();
            for (other, other_code) in includes.iter().filter(|(other, _)| other != include) {
                let at = position(other);
                if at.is_some() && is_called(other_code) {
                    users.push(other);
                    let is_before = position(include) < at && position(include).is_some();
                    assert!(is_before, "{}: {other} needs {include} before it", header.name);
                }
            }
            let is_needed = is_called(&header.code) || !users.is_empty();
            let is_included = position(include).is_some();
            assert_eq!(is_included, is_needed, "{}: include {include}", header.name);
        }
    }
}

/// The Rust names of pipeline commands that differ from their Redis names.
const METHODS: [(&str, &str); 6] = [
    ("hset_nx", "HSETNX"),
    ("set_ex", "SETEX"),
    ("zrange_withscores", "ZRANGE"),
    ("zrangebyscore_limit", "ZRANGEBYSCORE"),
    ("zrangebyscore_limit_withscores", "ZRANGEBYSCORE"),
    ("zscore_multiple", "ZMSCORE"),
];

/// The methods of the call chain at the beginning of `text`.
fn chained(text: &str) -> Vec<&str> {
    let (mut methods, mut depth, mut dot) = (Vec::new(), 0, None);
    for (at, c) in text.char_indices() {
        match c {
            '(' if depth == 0 => {
                methods.extend(dot.take().map(|dot| text[dot..at].trim()));
                depth = 1;
            }
            '(' => depth += 1,
            ')' => depth -= 1,
            '.' if depth == 0 => dot = Some(at + 1),
            ';' | ',' | '{' if depth == 0 => break,
            _ => {}
        }
        if depth < 0 || (depth == 0 && text[at..].starts_with(".await")) {
            break;
        }
    }
    // `cmd_iter` reads a pipeline, so the methods after it are not commands.
    let end = methods.iter().position(|method| *method == "cmd_iter").unwrap_or(methods.len());
    methods.truncate(end);
    methods
}

/// The commands that the Rust code sends, in any spelling.
fn commands_sent() -> BTreeSet<String> {
    let mut sent = BTreeSet::new();
    let embedded = |path: &std::path::PathBuf| shown(path).contains("embedded");
    let both =
        files("crates/store/src", "rs").into_iter().chain(files("crates/redis_client/src", "rs"));
    for path in both.filter(|path| !embedded(path)) {
        let code = code_of(&path);
        for named in code.split("cmd(\"").skip(1) {
            sent.extend(named.split_once('"').map(|(name, _)| name.to_owned()));
        }
        for pipe in ["pipe.", "pipe()."] {
            for (at, _) in code.match_indices(pipe) {
                for method in chained(&code[at + pipe.len() - 1..]) {
                    let other = METHODS.iter().find(|(of_rust, _)| *of_rust == method);
                    sent.insert(
                        other.map_or(method.to_uppercase(), |(_, name)| (*name).to_owned()),
                    );
                }
            }
        }
    }
    sent
}

/// Commands that not every deployment needs, and words that are not Redis commands.
const ELSEWHERE: [&str; 7] =
    ["ASKING", "CLUSTER", "CONFIG", "ROLE", "SENTINEL", "SHUTDOWN", "WAIT"];

#[test]
fn the_rights_that_are_asked_for_are_those_that_are_used() {
    let rules = rights_needed();
    let asked: BTreeSet<String> = rules.iter().map(|rule| rule[1..].to_uppercase()).collect();
    let in_lua = |path: &Path| -> BTreeSet<String> {
        let code = without_comments(&fs::read_to_string(path).unwrap());
        let words = code.lines().flat_map(|line| line.split('\'').skip(1).step_by(2));
        let is_name = |word: &&str| word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase());
        words.filter(is_name).map(str::to_owned).collect()
    };
    let options = [
        "WITHSCORES",
        "BYSCORE",
        "LIMIT",
        "REV",
        "COUNT",
        "NOVALUES",
        "MAXLEN",
        "PXAT",
        "WITHVALUES",
    ];
    let mut used: BTreeSet<String> =
        files("lua", "lua").iter().flat_map(|path| in_lua(path)).collect();
    used.retain(|word| !options.contains(&word.as_str()));
    assert!(used.len() > 30, "{used:?}");
    let mut sent = commands_sent();
    let known = |word: &String| word.len() > 2 && !ELSEWHERE.contains(&word.as_str());
    let of_pipelines =
        ["CMD", "ARG", "IGNORE", "ADD_COMMAND", "CMD_ITER", "QUERY_ASYNC", "EXEC_ASYNC"];
    let more = ["CLONE", "LEN", "IGNORE_ERRORS", "IS_TRANSACTION"];
    let is_command =
        |word: &String| !of_pipelines.contains(&word.as_str()) && !more.contains(&word.as_str());
    sent.retain(|word| known(word) && is_command(word));
    assert!(sent.len() > 20, "{sent:?}");
    used.extend(sent);
    used.extend(["EVAL", "EVALSHA"].map(str::to_owned));
    let missing: Vec<_> = used.difference(&asked).collect();
    let needless: Vec<_> = asked.difference(&used).collect();
    assert!(
        missing.is_empty(),
        "used, but not asked for (crates/store/src/commands.rs): {missing:?}"
    );
    assert!(needless.is_empty(), "asked for, but not used: {needless:?}");
}
