//! `reseq context add|list|show|use|delete`: named services with their tokens, so that a command needs neither
//! `--url` nor `--token-file`.

mod file;

use std::{io::IsTerminal, path::PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

pub use file::{Context, Contexts};

use super::{
    client_args::service_at,
    files,
    output::{Output, in_lines, list as as_list, text_of, write_out},
    usage::WrongUsage,
};
use client::{Header, Service};
use tls::Pem;

const COLUMNS: [&str; 4] = ["current", "name", "url", "token"];

/// The arguments of `reseq context`.
#[derive(Debug, Clone, Args)]
pub struct ContextArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Add a service. On a terminal, asks for its token
    Add(AddArgs),
    /// List the contexts
    List(PrintArgs),
    /// Show one context, without its token
    Show(ShowArgs),
    /// Make a context the current one. Commands without a URL or a context use it
    Use(NameArgs),
    /// Delete a context, with its token
    Delete(NameArgs),
}

#[derive(Debug, Clone, Args)]
struct AddArgs {
    /// Name of the context
    #[arg(value_parser = file::name)]
    name: String,
    /// URL of the service
    #[arg(long)]
    url: String,
    /// File with the token; - is standard input. A token is never an argument, because other users of
    /// the machine could read it
    #[arg(long, value_name = "FILE", conflicts_with = "no_token")]
    token_file: Option<PathBuf>,
    /// The service needs no token
    #[arg(long)]
    no_token: bool,
    /// File with root certificates (PEM) to trust, in addition to those of the system
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// File with the certificate (PEM) of this client
    #[arg(long, value_name = "FILE", requires = "key_file")]
    certificate_file: Option<PathBuf>,
    /// File with the key (PEM) of that certificate
    #[arg(long, value_name = "FILE", requires = "certificate_file")]
    key_file: Option<PathBuf>,
    /// Replace the context of this name
    #[arg(long)]
    replace: bool,
}

#[derive(Debug, Clone, Args)]
struct NameArgs {
    /// Name of the context
    name: String,
}

#[derive(Debug, Clone, Args)]
struct PrintArgs {
    /// Format of the output
    #[arg(short, long, value_name = "FORMAT", default_value_t, value_enum)]
    output: Output,
}

#[derive(Debug, Clone, Args)]
struct ShowArgs {
    /// Name of the context; the current one if left out
    name: Option<String>,
    #[command(flatten)]
    print: PrintArgs,
}

/// Runs the command.
pub async fn run(args: ContextArgs) -> anyhow::Result<()> {
    match args.command {
        Command::Add(args) => add(args).await,
        Command::List(args) => list(&args),
        Command::Show(args) => show(args),
        Command::Use(args) => make_current(&args.name),
        Command::Delete(args) => delete(&args.name),
    }
}

async fn add(args: AddArgs) -> anyhow::Result<()> {
    let mut all = Contexts::load()?;
    let name = &args.name;
    if all.contexts.contains_key(name) && !args.replace {
        bail!(WrongUsage(format!("there is a context {name:?} already; --replace replaces it")));
    }
    // Refuse an invalid URL.
    service_at(&args.url, &[], &Pem::default())?;
    let absolute = |option: &str, path: Option<&PathBuf>| {
        let find = |path: &PathBuf| {
            let problem = || format!("{option}: {} cannot be read", path.display());
            path.canonicalize().with_context(problem)
        };
        path.map(find).transpose()
    };
    let context = Context {
        url: args.url.clone(),
        ca_file: absolute("--ca-file", args.ca_file.as_ref())?,
        certificate_file: absolute("--certificate-file", args.certificate_file.as_ref())?,
        key_file: absolute("--key-file", args.key_file.as_ref())?,
        token: token(&args).await?,
    };
    all.contexts.insert(name.clone(), context);
    let is_current = all.current.get_or_insert_with(|| name.clone()) == name;
    all.save()?;
    match is_current {
        true => write_out(&format!("{name} is added, and is the current context")),
        false => write_out(&format!("{name} is added; to use it: reseq context use {name}")),
    }
}

/// The token: from the file, or typed without an echo. `None` if the user gives none.
async fn token(args: &AddArgs) -> anyhow::Result<Option<String>> {
    let text = match &args.token_file {
        Some(file) => String::from_utf8(files::read(file).await?).ok(),
        None if args.no_token => None,
        None if std::io::stdin().is_terminal() => {
            let prompt = format!("Token of {} (empty: none): ", args.name);
            let typed = tokio::task::spawn_blocking(|| rpassword::prompt_password(prompt));
            Some(typed.await?.context("reading the token")?)
        }
        None => {
            let problem = "there is no terminal to ask on: give --token-file FILE or --no-token";
            bail!(WrongUsage(problem.to_owned()));
        }
    };
    let text = text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    if args.token_file.is_some() && text.is_none() {
        bail!("--token-file: there is no token in it");
    }
    if text.as_ref().is_some_and(|text| Header::bearer(text).is_none()) {
        bail!("the token has characters that no token has");
    }
    Ok(text)
}

fn list(args: &PrintArgs) -> anyhow::Result<()> {
    let all = Contexts::load()?;
    let items: Vec<Value> = all.contexts.keys().map(|name| shown(&all, name)).collect();
    let answer = json!({"items": items});
    match args.output {
        Output::Table => write_out(&as_list(&answer, &COLUMNS, |item| {
            let mark = if item["current"] == true { "*" } else { "" };
            let token = if item["token"] == true { "yes" } else { "none" };
            vec![mark.to_owned(), text_of(item, "name"), text_of(item, "url"), token.to_owned()]
        })),
        output => write_out(&output.render(&answer.to_string())?),
    }
}

fn show(args: ShowArgs) -> anyhow::Result<()> {
    let all = Contexts::load()?;
    let none = || WrongUsage("there is no current context: name one".to_owned());
    let name = args.name.or_else(|| all.current.clone()).ok_or_else(none)?;
    all.find(&name)?;
    let object = shown(&all, &name).to_string();
    match args.print.output {
        Output::Table => write_out(&in_lines(&object)),
        output => write_out(&output.render(&object)?),
    }
}

/// The fields of a context for display, without its token.
fn shown(all: &Contexts, name: &str) -> Value {
    let Some(context) = all.contexts.get(name) else { return Value::Null };
    json!({
        "name": name,
        "url": without_password(&context.url),
        "current": all.current.as_deref() == Some(name),
        "token": context.token.is_some(),
        "ca_file": context.ca_file,
        "certificate_file": context.certificate_file,
        "key_file": context.key_file,
    })
}

fn without_password(url: &str) -> String {
    let service = Service::at(url, &[], &Pem::default());
    service.map(|service| service.url().to_owned()).unwrap_or_default()
}

fn make_current(name: &str) -> anyhow::Result<()> {
    let mut all = Contexts::load()?;
    let url = without_password(&all.find(name)?.url);
    all.current = Some(name.to_owned());
    all.save()?;
    write_out(&format!("{name} ({url}) is the current context"))
}

fn delete(name: &str) -> anyhow::Result<()> {
    let mut all = Contexts::load()?;
    all.find(name)?;
    all.contexts.remove(name);
    if all.current.as_deref() == Some(name) {
        all.current = None;
    }
    all.save()?;
    write_out(&format!("{name} is deleted"))
}
