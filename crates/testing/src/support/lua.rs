//! What a script does with its keys, read from its text: which commands it runs on which of KEYS.
//!
//! No interpreter: values are followed through assignments, fields of tables, arguments and results
//! of functions, whatever the order of the statements. That decides all that the scripts of Reseq do,
//! except where a key is picked by a number that is computed.

use std::collections::{BTreeMap, BTreeSet};

/// A token of Lua.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Name(String),
    Text(String),
    Number(usize),
    Symbol(String),
}

/// What an expression may be, as far as it matters here: one of the keys, or a text such as the name of a
/// command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Key(String),
    Text(String),
}

type Values = BTreeSet<Value>;

/// Where values are kept: a variable of a function (0: of the script itself), a field of any table, the
/// results of a function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    Variable(usize, String),
    Field(String),
    Results(String),
}

/// A named function, or the script itself.
struct Function {
    name: String,
    parameters: Vec<String>,
    body: std::ops::Range<usize>,
    declared: BTreeSet<String>,
}

/// The names of the keys that stand in a header: by number, and those that repeat from a number on.
pub struct Keys {
    pub fixed: BTreeMap<usize, String>,
    pub per_lane: Option<(usize, Vec<String>)>,
    pub per_name: Option<String>,
    /// The last key, where it has a name of its own: `KEYS[#KEYS]`.
    pub last: Option<String>,
}

/// The commands of a script, each with the keys that it may be run on.
pub fn commands(code: &str, keys: &Keys) -> BTreeSet<(String, String)> {
    let tokens = tokens(code);
    let functions = functions(&tokens);
    let mut reading =
        Reading { tokens, functions, keys, slots: BTreeMap::new(), commands: BTreeSet::new() };
    // Each round carries values one assignment or call further.
    loop {
        let before = reading.size();
        reading.follow();
        if reading.size() == before {
            return reading.commands;
        }
    }
}

fn tokens(code: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = |is_in: fn(char) -> bool| rest.find(|c| !is_in(c)).unwrap_or(rest.len());
        let taken = match first {
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '\'' | '"' => {
                let end = rest[1..].find(first).expect("a text ends on its line") + 1;
                found.push(Token::Text(rest[1..end].to_owned()));
                end + 1
            }
            _ if first.is_ascii_digit() => {
                let end = length(|c| c.is_ascii_digit());
                found.push(Token::Number(rest[..end].parse().unwrap()));
                end
            }
            _ if first.is_alphabetic() || first == '_' => {
                let end = length(|c| c.is_alphanumeric() || c == '_');
                found.push(Token::Name(rest[..end].to_owned()));
                end
            }
            _ if first.is_whitespace() => first.len_utf8(),
            _ => {
                let symbols = ["...", "..", "==", "~=", "<=", ">="];
                let symbol = symbols.iter().find(|symbol| rest.starts_with(**symbol));
                let symbol = symbol.map_or(first.to_string(), |symbol| (*symbol).to_owned());
                found.push(Token::Symbol(symbol.clone()));
                symbol.len()
            }
        };
        rest = &rest[taken..];
    }
    found
}

fn is(token: Option<&Token>, text: &str) -> bool {
    matches!(token, Some(Token::Name(word) | Token::Symbol(word)) if word == text)
}

fn name_at(tokens: &[Token], at: usize) -> Option<&str> {
    match tokens.get(at) {
        Some(Token::Name(name)) => Some(name),
        _ => None,
    }
}

/// Behind the `end` of a block whose first token stands here, outside of it.
fn end_of_block(tokens: &[Token], from: usize) -> usize {
    let mut depth = 1;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token {
            Token::Name(word) if ["function", "do", "if", "repeat"].contains(&&**word) => {
                depth += 1
            }
            Token::Name(word) if ["end", "until"].contains(&&**word) => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The named functions, behind the script itself. What has no name belongs to what is around it.
fn functions(tokens: &[Token]) -> Vec<Function> {
    let of = |name: &str, parameters, body| Function {
        name: name.to_owned(),
        parameters,
        body,
        declared: BTreeSet::new(),
    };
    let mut all = vec![of("", Vec::new(), 0..tokens.len())];
    for at in 0..tokens.len() {
        let Some(name) = name_at(tokens, at + 1) else { continue };
        if !is(tokens.get(at), "function") || !is(tokens.get(at + 2), "(") {
            continue;
        }
        let close = (at + 3..tokens.len()).find(|at| is(tokens.get(*at), ")")).unwrap();
        let parameters: Vec<String> = tokens[at + 3..close]
            .iter()
            .filter_map(|token| match token {
                Token::Name(name) => Some(name.clone()),
                Token::Symbol(dots) if dots == "..." => Some(dots.clone()),
                _ => None,
            })
            .collect();
        all.push(of(name, parameters, close + 1..end_of_block(tokens, close + 1)));
    }
    let declared: Vec<BTreeSet<String>> =
        (0..all.len()).map(|index| declared_in(tokens, &all, index)).collect();
    for (function, declared) in all.iter_mut().zip(declared) {
        function.declared = declared;
    }
    all
}

/// The parameters, the `local`s and the variables of loops.
fn declared_in(tokens: &[Token], all: &[Function], index: usize) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = all[index].parameters.iter().cloned().collect();
    for at in all[index].body.clone() {
        let declares = is(tokens.get(at), "local") || is(tokens.get(at), "for");
        if !declares || innermost(all, at) != index || is(tokens.get(at + 1), "function") {
            continue;
        }
        let mut next = at + 1;
        while let Some(name) = name_at(tokens, next) {
            names.insert(name.to_owned());
            if !is(tokens.get(next + 1), ",") {
                break;
            }
            next += 2;
        }
    }
    names
}

/// The function that a token stands in.
fn innermost(all: &[Function], at: usize) -> usize {
    let holding = all.iter().enumerate().filter(|(_, function)| function.body.contains(&at));
    holding.min_by_key(|(_, function)| function.body.len()).map_or(0, |(index, _)| index)
}

struct Reading<'k> {
    tokens: Vec<Token>,
    functions: Vec<Function>,
    keys: &'k Keys,
    slots: BTreeMap<Slot, Values>,
    commands: BTreeSet<(String, String)>,
}

const OPERATORS: [&str; 15] =
    ["+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", ">", "<=", ">=", "and", "or"];

impl Reading<'_> {
    fn size(&self) -> (usize, usize) {
        (self.slots.values().map(BTreeSet::len).sum(), self.commands.len())
    }

    fn is(&self, at: usize, text: &str) -> bool {
        is(self.tokens.get(at), text)
    }

    fn add(&mut self, slot: Slot, values: Values) {
        self.slots.entry(slot).or_default().extend(values);
    }

    fn values(&self, slot: &Slot) -> Values {
        self.slots.get(slot).cloned().unwrap_or_default()
    }

    /// The variable that a name means at this token.
    fn variable(&self, at: usize, name: &str) -> Slot {
        let mut holding: Vec<usize> = (0..self.functions.len())
            .filter(|index| self.functions[*index].body.contains(&at))
            .collect();
        holding.sort_by_key(|index| self.functions[*index].body.len());
        let declares = |index: &&usize| self.functions[**index].declared.contains(name);
        Slot::Variable(holding.iter().find(declares).copied().unwrap_or(0), name.to_owned())
    }

    /// One pass over all statements.
    fn follow(&mut self) {
        for at in 0..self.tokens.len() {
            let inside = innermost(&self.functions, at);
            if ["try", "expect"].contains(&self.functions[inside].name.as_str()) {
                continue;
            }
            if self.is(at, "=") {
                self.assign(at);
            } else if self.is(at, "return") {
                let values = self.value_of(at + 1).1;
                self.add(Slot::Results(self.functions[inside].name.clone()), values);
            } else if self.is(at, "(") && at > 0 {
                self.call(at);
            }
        }
    }

    /// The names to the left of a `=`, and what is to its right.
    fn assign(&mut self, at: usize) {
        let mut targets = Vec::new();
        let mut left = at;
        while let Some(name) = left.checked_sub(1).and_then(|left| name_at(&self.tokens, left)) {
            let is_field = left >= 2 && self.is(left - 2, ".");
            let is_entry = left >= 2 && self.is_in_table(left - 1);
            targets.push(match is_field || is_entry {
                true => Slot::Field(name.to_owned()),
                false => self.variable(at, name),
            });
            if is_field || is_entry || left < 2 || !self.is(left - 2, ",") {
                break;
            }
            left -= 2;
        }
        targets.reverse();
        let mut next = at + 1;
        for target in targets {
            let (end, values) = self.value_of(next);
            self.add(target, values);
            if !self.is(end, ",") {
                break;
            }
            next = end + 1;
        }
    }

    /// True if this token stands directly in the braces of a table.
    fn is_in_table(&self, at: usize) -> bool {
        let mut depth = 0;
        for token in self.tokens[..at].iter().rev() {
            match token {
                Token::Symbol(symbol) if [")", "]", "}"].contains(&&**symbol) => depth += 1,
                Token::Symbol(symbol) if depth == 0 && symbol == "{" => return true,
                Token::Symbol(symbol) if ["(", "[", "{"].contains(&&**symbol) => depth -= 1,
                Token::Name(word)
                    if depth == 0 && ["local", "end", "then", "do"].contains(&&**word) =>
                {
                    return false;
                }
                _ => {}
            }
            if depth < 0 {
                return false;
            }
        }
        false
    }

    /// A call whose `(` stands here: a command, or a function of the script.
    fn call(&mut self, open: usize) {
        let Some(name) = name_at(&self.tokens, open - 1).map(str::to_owned) else { return };
        if open >= 2 && self.is(open - 2, "function") {
            return;
        }
        let mut arguments = Vec::new();
        let mut next = open + 1;
        while !self.is(next, ")") && next < self.tokens.len() {
            let (end, values) = self.value_of(next);
            arguments.push(values);
            next = if self.is(end, ",") { end + 1 } else { end.max(next + 1) };
        }
        let is_redis = open >= 3 && self.is(open - 2, ".") && self.is(open - 3, "redis");
        if is_redis && ["call", "pcall"].contains(&name.as_str()) || name == "try" {
            return self.command(&arguments);
        }
        if name == "expect" {
            // It only looks whether the types are right: no command.
            return;
        }
        let Some(index) = self.functions.iter().position(|function| function.name == name) else {
            return;
        };
        for (parameter, values) in
            self.functions[index].parameters.clone().into_iter().zip(arguments)
        {
            self.add(Slot::Variable(index, parameter), values);
        }
    }

    fn command(&mut self, arguments: &[Values]) {
        let Some((verbs, rest)) = arguments.split_first() else { return };
        for verb in verbs {
            let Value::Text(verb) = verb else { continue };
            let takes_many = ["UNLINK", "DEL", "EXISTS"].contains(&verb.as_str());
            let keys = rest.iter().take(if takes_many { rest.len() } else { 1 }).flatten();
            for key in keys {
                if let Value::Key(key) = key {
                    self.commands.insert((verb.clone(), key.clone()));
                }
            }
        }
    }

    /// Where an expression ends, and what it may be: one of its parts between `and` and `or`, where such a
    /// part is nothing computed.
    fn value_of(&self, from: usize) -> (usize, Values) {
        let (mut at, mut all) = (from, Values::new());
        let mut is_computed = false;
        loop {
            let (end, values) = self.operand(at);
            let joins = |at: usize| self.is(at, "and") || self.is(at, "or");
            let goes_on = OPERATORS.iter().any(|operator| self.is(end, operator));
            if !is_computed && (!goes_on || joins(end)) {
                all.extend(values);
            }
            if !goes_on || end == at {
                return (end, all);
            }
            is_computed = !joins(end);
            at = end + 1;
        }
    }

    /// The same of what stands between two operators.
    fn operand(&self, from: usize) -> (usize, Values) {
        let mut at = from;
        while ["not", "-", "#"].iter().any(|unary| self.is(at, unary)) {
            at += 1;
        }
        let is_plain = at == from;
        let nothing = Values::new;
        let (end, values) = match self.tokens.get(at) {
            Some(Token::Text(text)) => (at + 1, Values::from([Value::Text(text.clone())])),
            Some(Token::Number(_)) => (at + 1, nothing()),
            Some(Token::Symbol(symbol)) if symbol == "{" => {
                let close = self.closing(at);
                let mut values = nothing();
                let mut next = at + 1;
                while next < close {
                    let (end, some) = self.value_of(next);
                    values.extend(some);
                    next = end.max(next) + 1;
                }
                (close + 1, values)
            }
            Some(Token::Symbol(symbol)) if symbol == "(" => {
                (self.closing(at) + 1, self.value_of(at + 1).1)
            }
            Some(Token::Symbol(symbol)) if symbol == "..." => (at + 1, nothing()),
            Some(Token::Name(word)) if word == "function" => {
                let close = (at..self.tokens.len()).find(|at| self.is(*at, ")")).unwrap();
                (end_of_block(&self.tokens, close + 1), nothing())
            }
            Some(Token::Name(name)) => self.named(at, name),
            _ => return (at, nothing()),
        };
        (end, if is_plain { values } else { nothing() })
    }

    /// A name with what follows it: fields, places and calls.
    fn named(&self, at: usize, name: &str) -> (usize, Values) {
        let mut values = match name {
            "nil" | "true" | "false" => Values::new(),
            _ => self.values(&self.variable(at, name)),
        };
        let mut next = at + 1;
        let mut last = name;
        loop {
            if self.is(next, ".") {
                last = name_at(&self.tokens, next + 1).unwrap_or_default();
                values = self.values(&Slot::Field(last.to_owned()));
                next += 2;
            } else if self.is(next, "[") {
                values = match last == "KEYS" {
                    true => self.keys_at(next + 1..self.closing(next)),
                    false => Values::new(),
                };
                next = self.closing(next) + 1;
            } else if self.is(next, "(") {
                values = self.values(&Slot::Results(last.to_owned()));
                next = self.closing(next) + 1;
            } else {
                return (next, values);
            }
        }
    }

    fn closing(&self, open: usize) -> usize {
        let mut depth = 0;
        for (at, token) in self.tokens.iter().enumerate().skip(open) {
            match token {
                Token::Symbol(symbol) if ["(", "[", "{"].contains(&&**symbol) => depth += 1,
                Token::Symbol(symbol) if [")", "]", "}"].contains(&&**symbol) => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        self.tokens.len()
    }

    /// The keys whose numbers these tokens may be.
    fn keys_at(&self, number: std::ops::Range<usize>) -> Values {
        let keys: Vec<String> = match &self.tokens[number.clone()] {
            [Token::Number(number)] => self.keys_from_to(*number, *number),
            // Of the first lane: `14 + 2 * lane`.
            [
                Token::Number(base),
                Token::Symbol(plus),
                Token::Number(each),
                Token::Symbol(times),
                Token::Name(_),
            ] if plus == "+" && times == "*" => self.keys_from_to(base + each, base + each),
            [Token::Symbol(length), Token::Name(_)] if length == "#" => {
                self.keys.last.iter().cloned().collect()
            }
            [Token::Name(name)] if self.range_of(number.start, name).is_some() => {
                let (from, to) = self.range_of(number.start, name).unwrap();
                self.keys_from_to(from, to)
            }
            _ => self.keys.per_name.iter().cloned().collect(),
        };
        keys.into_iter().map(Value::Key).collect()
    }

    /// From where to where the last loop counts before this token, if it counts this name; to the end of KEYS,
    /// two of each lane.
    fn range_of(&self, at: usize, name: &str) -> Option<(usize, usize)> {
        let counts =
            |at: &usize| self.is(*at, "for") && self.is(at + 1, name) && self.is(at + 2, "=");
        let begin = (0..at).rev().find(counts)? + 3;
        let number = |at: usize| match self.tokens.get(at) {
            Some(Token::Number(number)) => Some(*number),
            _ => None,
        };
        let from = number(begin)?;
        Some((from, number(begin + 2).unwrap_or(from + 1)))
    }

    fn keys_from_to(&self, from: usize, to: usize) -> Vec<String> {
        let name = |number: usize| match (self.keys.fixed.get(&number), &self.keys.per_lane) {
            (Some(name), _) => Some(name.clone()),
            (None, Some((first, names))) if number >= *first => {
                names.get((number - first) % names.len()).cloned()
            }
            _ => None,
        };
        (from..=to).filter_map(name).collect()
    }
}
