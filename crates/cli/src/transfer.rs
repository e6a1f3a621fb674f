//! `reseq export` and `reseq import`: destinations, topics and tokens in one file, without secrets.

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use clap::Args;
use serde_json::{Map, Value, json};

use super::{
    apply::{ADDED, Definition, Noun, apply_one, definition, difference, each_secret, from_text},
    client_args::ClientArgs,
    destinations, files,
    output::{Output, counted, quoted, text_of, write_out},
    topics,
};
use client::pages;
use domain::{Destination, Topic, destination::MASK, nearest::for_people};

/// The field with the format of the file, and the format that this version supports.
const FORM_FIELD: &str = "export_format";
const FORM: u64 = 1;
/// Fields of a token that change without an operator.
const OF_USE: [&str; 2] = ["last_used_at", "expired"];

/// The arguments of `reseq export`.
#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    client: ClientArgs,
}

/// The arguments of `reseq import`.
#[derive(Debug, Clone, Args)]
pub struct ImportArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// File that reseq export has written, TOML or JSON; "-" is standard input
    file: PathBuf,
    /// Also change existing destinations and topics whose definitions differ
    #[arg(long)]
    replace: bool,
    /// Only check the file, without a service
    #[arg(long, conflicts_with = "replace")]
    check: bool,
}

/// Prints all definitions: TOML, or JSON with `-o json`.
pub async fn export(ExportArgs { client }: ExportArgs) -> anyhow::Result<()> {
    let mut whole = json!({FORM_FIELD: FORM});
    for noun in ["destination", "topic", "token"] {
        let path = format!("/v1/{noun}s");
        let read = pages::read(&client.service()?, &path, &[], usize::MAX, None).await;
        client.print_problem(&read)?;
        let mut items = read?["items"].clone();
        for fields in items.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            // TOML has no null.
            fields.retain(|name, value| {
                !value.is_null() && !ADDED.contains(&&**name) && !OF_USE.contains(&&**name)
            });
        }
        whole[noun] = items;
    }
    write_out(&match client.output {
        Output::Json => serde_json::to_string_pretty(&whole)?,
        Output::Table => toml::to_string(&whole).context("the definitions as TOML; try -o json")?,
        Output::Name => {
            let nouns = whole.as_object().into_iter().flatten();
            let each = nouns.flat_map(|(noun, all)| {
                all.as_array().into_iter().flatten().map(move |one| (noun, one))
            });
            each.map(|(noun, one)| format!("{noun} {}\n", text_of(one, "name"))).collect()
        }
        Output::Yaml => client.output.render(&whole.to_string())?,
    })
}

/// The objects in a file.
struct Export {
    destinations: Vec<Definition>,
    topics: Vec<Definition>,
    tokens: Vec<Value>,
}

/// Creates the objects in the file. Changes nothing unless everything is valid and nothing conflicts.
pub async fn import(args: ImportArgs) -> anyhow::Result<()> {
    let ImportArgs { client, file, replace, check } = args;
    let text = String::from_utf8(files::read(&file).await?);
    let text = text.map_err(|_| anyhow!("{} is not UTF-8", file.display()))?;
    let export = from_text(&file, &text).and_then(|whole| read(whole, check));
    let Export { destinations: receivers, topics: groups, tokens } =
        export.with_context(|| file.display().to_string())?;
    if check {
        let counts = [(&receivers, "destination"), (&groups, "topic")];
        let counts = counts.map(|(all, noun)| counted(all.len() as u64, noun)).join(", ");
        return write_out(&format!("ok: {counts}, {}", counted(tokens.len() as u64, "token")));
    }
    let of_destinations = receivers.iter().map(|one| (&destinations::NOUN, one));
    let all = of_destinations.chain(groups.iter().map(|one| (&topics::NOUN, one)));
    let (mut wanted, mut in_the_way) = (Vec::new(), Vec::new());
    for (noun, one) in all {
        let compared = difference(&client, noun, &one.name, &one.value).await;
        let (exists, changes) = compared.with_context(|| of(noun, one))?;
        let is_same = exists && changes.is_empty();
        if exists && !is_same {
            in_the_way.push(of(noun, one));
        }
        wanted.push((noun, one, is_same));
    }
    ensure!(
        replace || in_the_way.is_empty(),
        "nothing was changed: these exist with other definitions: {}. To change them, add --replace; to see how they \
         differ: reseq destinations diff, reseq topics apply --dry-run",
        in_the_way.join(", ")
    );
    // Do this before anything is written: without the right to read tokens, the import ends here.
    let missing = missing(&client, &tokens).await?;
    for (noun, one, is_same) in wanted {
        let result = if is_same {
            "unchanged"
        } else {
            let applied = apply_one(&client, noun, one, replace).await;
            applied.with_context(|| of(noun, one))?.0
        };
        write_out(&format!("{} {result}", of(noun, one)))?;
    }
    for token in missing {
        write_out(&format!("token missing; its text is in no export: {}", command_of(token)))?;
        if let Some(until) = token["expires_at"].as_str() {
            write_out(&format!("  it was to end at {until}: add --expires-in"))?;
        }
    }
    Ok(())
}

/// The tokens of the file that the service does not have.
async fn missing<'a>(client: &ClientArgs, tokens: &'a [Value]) -> anyhow::Result<Vec<&'a Value>> {
    if tokens.is_empty() {
        return Ok(Vec::new());
    }
    let held = pages::read(&client.service()?, "/v1/tokens", &[], usize::MAX, None).await;
    client.print_problem(&held)?;
    let held = held?;
    let held: BTreeSet<&str> = held["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["name"].as_str())
        .collect();
    Ok(tokens
        .iter()
        .filter(|one| !held.contains(one["name"].as_str().unwrap_or_default()))
        .collect())
}

fn of(noun: &Noun, one: &Definition) -> String {
    format!("{} {}", noun.table, one.name)
}

/// Reads and checks the whole file. With `check`, secrets in files and variables are not read.
fn read(whole: Value, check: bool) -> anyhow::Result<Export> {
    let Value::Object(mut fields) = whole else { bail!("this is no export of Reseq") };
    match fields.remove(FORM_FIELD).and_then(|form| form.as_u64()) {
        Some(FORM) => {}
        None => bail!("this is no export of Reseq: it has no field {FORM_FIELD}"),
        Some(form) => bail!(
            "{FORM_FIELD} = {form}: the file is of another version of Reseq; this one knows {FORM}. Import it with the \
             version that wrote it, or a newer one"
        ),
    }
    let mut destinations = take(&mut fields, "destination")?;
    if check {
        for value in &mut destinations {
            each_secret(value, |_, secret| {
                *secret = MASK.into();
                Ok(())
            })?;
        }
    }
    let (topics, tokens) = (take(&mut fields, "topic")?, take(&mut fields, "token")?);
    if let Some(unknown) = fields.keys().next() {
        bail!("unknown field {unknown}: an export has {FORM_FIELD}, destination, topic and token");
    }
    let mut problems = Vec::new();
    let mut known = BTreeSet::new();
    let all = |values: Vec<Value>, table: &str| -> anyhow::Result<Vec<Definition>> {
        values.into_iter().map(|value| definition(value, table)).collect()
    };
    let (destinations, topics) = (all(destinations, "destination")?, all(topics, "topic")?);
    for (table, one) in destinations
        .iter()
        .map(|one| ("destination", one))
        .chain(topics.iter().map(|one| ("topic", one)))
    {
        let problem = if !known.insert((table, &one.name)) {
            "is there twice".into()
        } else {
            problem_of(table, &one.value)
        };
        if !problem.is_empty() {
            problems.push(format!("{table} {}: {problem}", one.name));
        }
    }
    ensure!(problems.is_empty(), "nothing was changed:\n{}", problems.join("\n"));
    Ok(Export { destinations, topics, tokens })
}

/// Takes the list with this name from the file.
fn take(fields: &mut Map<String, Value>, name: &str) -> anyhow::Result<Vec<Value>> {
    match fields.remove(name) {
        None => Ok(Vec::new()),
        Some(Value::Array(all)) => Ok(all),
        Some(_) => bail!("{name} is not a list: write [[{name}]]"),
    }
}

/// The problem of a definition; empty if it is valid.
fn problem_of(table: &str, value: &Value) -> String {
    let unread = |error: serde_json::Error| for_people(&error.to_string());
    let valid = match table {
        "topic" => serde_json::from_value::<Topic>(value.clone())
            .map_err(unread)
            .and_then(|topic| topic.validate().map_err(|error| error.to_string())),
        _ => serde_json::from_value::<Destination>(value.clone()).map_err(unread).and_then(
            |mut one| {
                // A mask is not a valid secret. It stands for one.
                one.sign = one.sign.filter(|sign| sign.secrets.iter().all(|secret| secret != MASK));
                one.verify =
                    one.verify.filter(|verify| verify.secrets.iter().all(|secret| secret != MASK));
                one.headers.retain(|_, value| value != MASK);
                one.transform.headers.retain(|_, value| value != MASK);
                one.validate().map_err(|error| error.to_string())
            },
        ),
    };
    valid.err().unwrap_or_default()
}

/// The command that creates an equal token.
fn command_of(token: &Value) -> String {
    let words = |field: &str| token[field].as_array().cloned().unwrap_or_default();
    let option = |name: &str, word: &Value| {
        format!(" --{name} {}", quoted(word.as_str().unwrap_or_default()))
    };
    let mut command =
        format!("reseq tokens create {}", quoted(token["name"].as_str().unwrap_or_default()));
    command.extend(words("scopes").iter().map(|word| option("scope", word)));
    command.extend(words("destinations").iter().map(|word| option("destination", word)));
    if let Some(rate) = token["rate_per_second_max"].as_u64().filter(|rate| *rate > 0) {
        command += &format!(" --rate-per-second-max {rate}");
    }
    command
}
