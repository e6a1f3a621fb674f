//! `apply FILE`: creates and changes the destinations or topics that a file defines.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use clap::Args;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{
    client_args::ClientArgs,
    files::read,
    output::{Output, plain, text_of, write_out},
};
use client::{Answer, Call};
use config::with_references;

/// Fields that answers of the service have in addition to a definition.
pub const ADDED: [&str; 4] = ["version", "partition", "defined_in_file", "paused"];

/// The arguments of `apply`.
#[derive(Debug, Clone, Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    pub client: ClientArgs,
    /// TOML or JSON file with one definition or several; "-" is standard input
    pub file: PathBuf,
    /// Change nothing: print what would change
    #[arg(long)]
    pub dry_run: bool,
}

/// A kind of object that a file defines: destinations or topics.
pub struct Noun {
    /// The name of the tables of this kind in TOML: `[[destination]]`.
    pub table: &'static str,
    /// The path of an object of this kind.
    pub path_of: fn(&str) -> String,
    /// The field of an answer whose value changes with each change of the object.
    pub changing: &'static str,
    /// True if the service can compare a definition with the current one.
    pub has_diff: bool,
}

/// Applies the definitions one after the other, and prints the result of each. Stops at the first definition that the
/// service refuses.
pub async fn apply(args: ApplyArgs, noun: &Noun) -> anyhow::Result<()> {
    let ApplyArgs { client, file, dry_run } = args;
    let text = String::from_utf8(read(&file).await?);
    let text = text.map_err(|_| anyhow!("{} is not UTF-8", file.display()))?;
    let definitions = parse(&file, &text, noun).with_context(|| file.display().to_string())?;
    for definition in &definitions {
        let Definition { name, value } = definition;
        if dry_run {
            let shown = preview(&client, noun, name, value).await;
            shown.with_context(|| format!("{} {name}", noun.table))?;
            continue;
        }
        let applied = apply_one(&client, noun, definition, true).await;
        let (result, answer) = applied.with_context(|| format!("{} {name}", noun.table))?;
        match client.output {
            Output::Table => write_out(&format!("{name} {result}"))?,
            output => {
                let answer: &Value = &answer;
                let applied = json!({"name": name, "result": result, noun.table: answer});
                write_out(&output.render(&applied.to_string())?)?;
            }
        }
    }
    Ok(())
}

/// Applies one definition; returns the result as a word, and the answer. Without `may_change`, an existing object is
/// refused.
pub async fn apply_one(
    client: &ClientArgs,
    noun: &Noun,
    Definition { name, value }: &Definition,
    may_change: bool,
) -> anyhow::Result<(&'static str, Answer)> {
    let path = (noun.path_of)(name);
    let before = client.service()?.find::<Value>(&path).await;
    client.print_problem(&before)?;
    let before = before?;
    let put = Call::put(&path, value);
    let answer = client.call(if may_change { put } else { put.creating() }).await?;
    let is_same = before.is_some_and(|before| before[noun.changing] == answer[noun.changing]);
    let result = match (answer.status, is_same) {
        (StatusCode::CREATED, _) => "created",
        (_, true) => "unchanged",
        (_, false) => "changed",
    };
    Ok((result, answer))
}

/// True if the object exists; and the changes that applying one definition would make.
pub async fn difference(
    client: &ClientArgs,
    noun: &Noun,
    name: &str,
    definition: &Value,
) -> anyhow::Result<(bool, Vec<Value>)> {
    let path = (noun.path_of)(name);
    if noun.has_diff {
        let diff = client.post(&format!("{path}/diff"), definition).await?;
        let changes = diff["changes"].as_array().cloned().unwrap_or_default();
        return Ok((diff["exists"] == true, changes));
    }
    let before = client.service()?.find::<Value>(&path).await;
    client.print_problem(&before)?;
    let before = before?;
    let (field, exists) = (noun.changing, before.is_some());
    let (before, after) = (before.unwrap_or_default()[field].take(), &definition[field]);
    let change = json!({"field": field, "before": before, "after": after});
    Ok((exists, if before == *after { Vec::new() } else { vec![change] }))
}

/// Prints the changes that applying one definition would make.
pub async fn preview(
    client: &ClientArgs,
    noun: &Noun,
    name: &str,
    definition: &Value,
) -> anyhow::Result<()> {
    let (exists, changes) = difference(client, noun, name, definition).await?;
    let result = match (exists, changes.is_empty()) {
        (false, _) => "would be created",
        (true, true) => "unchanged",
        (true, false) => "would be changed",
    };
    match client.output {
        Output::Table => write_out(&format!("{name} {result}\n{}", lines_of(&changes))),
        format => {
            let found = json!({"name": name, "result": result, "changes": changes});
            write_out(&format.render(&found.to_string())?)
        }
    }
}

/// A line for each field that changes.
fn lines_of(changes: &[Value]) -> String {
    let line = |change: &Value| {
        let [before, after] = ["before", "after"].map(|side| plain(&change[side].to_string()));
        let field = text_of(change, "field");
        match before == after {
            true => format!("  {field}: another secret\n"),
            false => format!("  {field}: {before} -> {after}\n"),
        }
    };
    changes.iter().map(line).collect()
}

/// One definition of a file.
#[derive(Debug, PartialEq)]
pub struct Definition {
    pub name: String,
    pub value: Value,
}

/// Reads JSON or TOML.
pub fn from_text(file: &Path, text: &str) -> anyhow::Result<Value> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("json") => from_json(text),
        Some("toml") => from_toml(text),
        _ => from_json(text).or_else(|not_json| {
            from_toml(text)
                .map_err(|not_toml| anyhow!("neither JSON ({not_json}) nor TOML ({not_toml})"))
        }),
    }
}

/// The definitions of a file, in its order.
fn parse(file: &Path, text: &str, noun: &Noun) -> anyhow::Result<Vec<Definition>> {
    let table = noun.table;
    let values = match from_text(file, text)? {
        Value::Array(all) => all,
        Value::Object(mut fields) => match fields.remove(table) {
            Some(Value::Array(all)) => all,
            Some(_) => bail!("{table} is not a list: write [[{table}]]"),
            None => vec![Value::Object(fields)],
        },
        _ => bail!("this is no definition: it has no fields"),
    };
    ensure!(!values.is_empty(), "this file has no {table}");
    values.into_iter().map(|value| definition(value, table)).collect()
}

/// The fields of a definition that may hold secrets. Each is an object or a list of secrets.
const SECRETS: [&str; 4] = ["/headers", "/transform/headers", "/sign/secrets", "/verify/secrets"];

/// Calls `change` for each secret that is a reference to a file or a variable, with the name of its field.
pub fn each_secret(
    value: &mut Value,
    change: impl Fn(String, &mut Value) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for path in SECRETS {
        let Some(holder) = value.pointer_mut(path) else { continue };
        let secrets: Vec<&mut Value> = match holder {
            Value::Object(fields) => fields.values_mut().collect(),
            Value::Array(all) => all.iter_mut().collect(),
            _ => continue,
        };
        for secret in secrets.into_iter().filter(|secret| secret.is_object()) {
            change(path.trim_start_matches('/').replace('/', "."), secret)?;
        }
    }
    Ok(())
}

/// Replaces references to files and variables by the secrets themselves.
fn resolve_secrets(value: &mut Value) -> anyhow::Result<()> {
    each_secret(value, |field, secret| {
        let read = with_references(|| domain::secret::text(secret.clone()));
        *secret = read.with_context(|| field)?.into();
        Ok(())
    })
}

/// Reads a definition from a value.
pub fn definition(mut value: Value, table: &str) -> anyhow::Result<Definition> {
    let name = value["name"].as_str().map(str::to_owned);
    let name = name.with_context(|| format!("a {table} has no name: add the field name"))?;
    if let Some(fields) = value.as_object_mut() {
        ADDED.iter().for_each(|field| drop(fields.remove(*field)));
    }
    resolve_secrets(&mut value).with_context(|| format!("{table} {name}"))?;
    Ok(Definition { name, value })
}

fn from_json(text: &str) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(text)?)
}

/// Reads TOML. The error quotes no part of the text, which may hold secrets.
fn from_toml(text: &str) -> anyhow::Result<Value> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        anyhow!("{} at line {}", error.message(), before.matches('\n').count() + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOUN: Noun = Noun {
        table: "destination",
        path_of: |_| String::new(),
        changing: "version",
        has_diff: true,
    };

    fn parsed(file: &str, text: &str) -> anyhow::Result<Vec<(String, Value)>> {
        let all = parse(Path::new(file), text, &NOUN)?;
        Ok(all.into_iter().map(|Definition { name, value }| (name, value)).collect())
    }

    #[test]
    fn a_file_holds_one_definition_or_several_in_toml_or_json() {
        let a = json!({"name": "a", "url": "http://h/", "delivery": {"batch_max": 2}});
        let b = json!({"name": "b"});
        let one = [("a".to_owned(), a.clone())];
        let both = [one[0].clone(), ("b".to_owned(), b.clone())];
        let toml = "name = \"a\"\nurl = \"http://h/\"\ndelivery.batch_max = 2\n";
        let tables =
            format!("[redis]\nurl = \"\"\n[[destination]]\n{toml}[[destination]]\nname = \"b\"\n");
        let answer = r#"{"name": "b", "version": 7, "partition": 1, "defined_in_file": false, "paused": {}}"#;
        for (file, text, expected) in [
            ("a.json", a.to_string(), &one[..]),
            ("a.toml", toml.to_owned(), &one),
            ("-", a.to_string(), &one),
            ("-", toml.to_owned(), &one),
            ("reseq.toml", tables.clone(), &both),
            ("-", tables, &both),
            ("all.json", json!([a, b]).to_string(), &both),
            ("b.json", answer.to_owned(), &both[1..]),
        ] {
            assert_eq!(parsed(file, &text).unwrap(), expected, "{file}: {text}");
        }
    }

    #[test]
    fn a_wrong_file_is_refused_without_its_text() {
        for (file, text, problem) in [
            ("a.json", "{\"secret\": ", "EOF"),
            ("a.toml", "name = \"a\"\nsecret", "at line 2"),
            ("a", "headers = secret", "neither JSON"),
            ("a.json", "[]", "has no destination"),
            ("a.json", "7", "has no fields"),
            ("a.json", "[{\"name\": \"a\"}, {\"url\": \"secret\"}]", "has no name"),
            ("a.toml", "destination = 7", "write [[destination]]"),
            ("a.toml", "[[topic]]\nname = \"t\"", "has no name"),
        ] {
            let error = format!("{:#}", parsed(file, text).unwrap_err());
            assert!(error.contains(problem) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
