//! `reseq tokens create|list|show|revoke`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::{
    client_args::ClientArgs,
    confirm::Confirmation,
    durations::duration_within,
    filters::Paging,
    output::{in_lines, text_of},
};
use client::paths::percent_encoded;

const COLUMNS: [&str; 7] =
    ["id", "name", "scopes", "destinations", "created_at", "expires_at", "last_used_at"];

/// The arguments of `reseq tokens`.
#[derive(Debug, Clone, Args)]
pub struct TokensArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Create a token and print it; it cannot be shown again
    Create(CreateArgs),
    /// List the tokens, without their secrets
    List(ListArgs),
    /// Show one token, without its secret
    Show(OneArgs),
    /// Revoke a token; within a second, no pod accepts it any more
    Revoke(RevokeArgs),
}

/// The scopes of a token.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeArg {
    /// Send messages
    Ingest,
    /// Claim messages as a worker, and report the results
    Work,
    /// Read everything except tokens and the audit log
    Read,
    /// Everything that read allows; also pause, retry, skip, cancel, purge, redrive, discard, replay, repair
    Operate,
    /// Everything
    Admin,
}

#[derive(Debug, Clone, Args)]
struct CreateArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the token, to tell people its purpose
    name: String,
    /// Scope of the token; repeat the option for more scopes
    #[arg(long = "scope", required = true, value_enum)]
    scopes: Vec<ScopeArg>,
    /// Limit the token to this destination; repeat the option for more destinations
    #[arg(long = "destination", value_name = "DESTINATION")]
    destinations: Vec<String>,
    /// The token expires after this time, such as 90d. Without the option, it never expires
    #[arg(long, value_name = "DURATION", value_parser = duration_within("1s", "3650d"))]
    expires_in: Option<Duration>,
    /// The most messages per second with this token that each process accepts; 0 means no limit
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    rate_per_second_max: u32,
}

#[derive(Debug, Clone, Args)]
struct ListArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    paging: Paging,
}

#[derive(Debug, Clone, Args)]
struct OneArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Id of the token
    id: String,
}

#[derive(Debug, Clone, Args)]
struct RevokeArgs {
    #[command(flatten)]
    one: OneArgs,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// Runs the command.
pub async fn run(args: TokensArgs) -> anyhow::Result<()> {
    match args.command {
        Command::Create(args) => create(args).await,
        Command::List(args) => list(args).await,
        Command::Show(OneArgs { client, id }) => {
            let answer = client.get(&path_of(&id)).await?;
            client.print(&answer, |answer| in_lines(&answer.text))
        }
        Command::Revoke(RevokeArgs { one: OneArgs { client, id }, confirmation }) => {
            let question = async { Ok(format!("Revoke the token {id}? Its users are refused.")) };
            confirmation.ask(question).await?;
            let answer = client.delete(&path_of(&id)).await?;
            client.print(&answer, |answer| format!("{} is revoked", text_of(answer, "revoked")))
        }
    }
}

async fn create(args: CreateArgs) -> anyhow::Result<()> {
    let CreateArgs { client, name, scopes, destinations, expires_in, rate_per_second_max } = args;
    let scopes: Vec<String> = scopes
        .iter()
        .filter_map(|scope| Some(scope.to_possible_value()?.get_name().to_owned()))
        .collect();
    let mut request = json!({"name": name, "scopes": scopes});
    if !destinations.is_empty() {
        request["destinations"] = json!(destinations);
    }
    if rate_per_second_max > 0 {
        request["rate_per_second_max"] = json!(rate_per_second_max);
    }
    if let Some(expires_in) = expires_in {
        request["expires_in_ms"] = json!(expires_in.as_millis() as u64);
    }
    let answer = client.post("/v1/tokens", &request).await?;
    client.print(&answer, |answer| text_of(answer, "token"))
}

async fn list(args: ListArgs) -> anyhow::Result<()> {
    args.client.list(("/v1/tokens", &[]), &args.paging, &COLUMNS, row).await
}

fn path_of(id: &str) -> String {
    format!("/v1/tokens/{}", percent_encoded(id))
}

fn row(item: &Value) -> Vec<String> {
    let words = |field: &str| -> String {
        let words = item[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        words.collect::<Vec<_>>().join(",")
    };
    let mut expires = text_of(item, "expires_at");
    if item["expired"] == true {
        expires += " (expired)";
    }
    vec![
        text_of(item, "id"),
        text_of(item, "name"),
        words("scopes"),
        words("destinations"),
        text_of(item, "created_at"),
        expires,
        text_of(item, "last_used_at"),
    ]
}
