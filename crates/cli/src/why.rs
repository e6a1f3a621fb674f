//! `reseq why` and `reseq lanes why`: shows the cause that blocks a lane, since when, and what to do.

use clap::Args;
use serde_json::Value;

use super::{
    client_args::ClientArgs,
    output::{count_of, counted, human_age, plain, text_of},
    style,
    watch::WatchArgs,
};
use client::paths::{path_of, query, text};

/// The width of the names of lines.
const NAME_WIDTH: usize = 8;

/// The arguments of `reseq why`.
#[derive(Debug, Clone, Args)]
pub struct WhyArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Ordering key of the lane; "" means no key. Default: the lane with the oldest head
    #[arg(long)]
    key: Option<String>,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Asks the service, and prints the answer.
pub async fn run(args: WhyArgs) -> anyhow::Result<()> {
    let WhyArgs { client, destination, key, watch } = args;
    let query = query(&[("key", text(key.as_deref()))]);
    let path = path_of(&destination, &format!("why{query}"));
    let shown = async || client.shown(&client.get(&path).await?, |answer| shown(answer));
    watch.print(client.output, shown).await
}

/// A line with its name, unless it is empty.
fn line(name: &str, value: &str) -> String {
    if value.is_empty() {
        return String::new();
    }
    let name = style::paint(style::BOLD, &format!("{name:<NAME_WIDTH$}"));
    format!("{name}{value}\n")
}

fn shown(why: &Value) -> String {
    let has_head = !why["head"].is_null();
    let mut out = match why["cause"].as_str() {
        _ if has_head => head(why),
        None | Some("nothing") => "nothing is pending\n".to_owned(),
        Some(_) => line("why", &text_of(why, "explanation")),
    };
    for sentence in why["summary"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        out += &line("in all", &plain(sentence));
    }
    if has_head {
        let bytes = match why["bytes_behind"].as_u64() {
            Some(bytes) => format!(", {}", indicatif::HumanBytes(bytes)),
            None => String::new(),
        };
        out += &line("owner", &owner_of(why));
        let behind = counted(count_of(why, "behind"), "message");
        out += &line("behind", &format!("{behind}{bytes}"));
    }
    let actions = why["actions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let width =
        actions.iter().map(|action| text_of(action, "when").len()).max().unwrap_or_default();
    for (index, action) in actions.iter().enumerate() {
        let name = if index == 0 { "do" } else { "" };
        let command = style::paint(style::ACTION, &text_of(action, "command"));
        out += &line(name, &format!("{:<width$}  {command}", text_of(action, "when")));
    }
    out
}

/// The head, its cause and its times.
fn head(why: &Value) -> String {
    let head = &why["head"];
    let key = match why["key"].as_str() {
        Some(key) => format!(" of key {:?}", plain(key)),
        None => String::new(),
    };
    let age = human_age(count_of(head, "age_ms"));
    let (sequence, id) = (text_of(head, "sequence"), text_of(head, "id"));
    let (state, cause) = (text_of(head, "state"), text_of(why, "cause"));
    let mut out = line("head", &format!("{sequence}{key}, id {id}, {age} old"));
    out += &line("state", &style::paint(style::of_state(&cause), &format!("{state} ({cause})")));
    out += &line("why", &text_of(why, "explanation"));
    if let Some(blocked_ms) = why["blocked_ms"].as_u64() {
        out += &line("since", &format!("{} (it became the head then)", human_age(blocked_ms)));
    }
    out += &line("of that", &by_cause(&why["blocked_ms_by_cause"]));
    out += &line("until", &text_of(why, "next_attempt_at"));
    let lease = &head["lease"];
    if !lease.is_null() {
        let named = |kind: &str| Some(text_of(lease, kind)).filter(|name| !name.is_empty());
        let unnamed = if state == "ready" { "a consumer" } else { "a worker" };
        let holder = named("worker").or_else(|| named("consumer"));
        let holder = holder.unwrap_or_else(|| format!("{unnamed} without a name"));
        out += &line("held by", &format!(" {holder}, until {}", text_of(lease, "expires_at")));
    }
    out
}

/// The pod that delivers, and the time of its last report.
fn owner_of(why: &Value) -> String {
    match text_of(why, "owner_seen_at") {
        seen if seen.is_empty() => text_of(why, "owner"),
        seen => format!("{}, last heartbeat {seen}", text_of(why, "owner")),
    }
}

/// The times by cause, the longest first.
fn by_cause(times: &Value) -> String {
    let times = times.as_object().into_iter().flatten();
    let mut times: Vec<(u64, &String)> =
        times.filter_map(|(cause, ms)| Some((ms.as_u64()?, cause))).collect();
    times.sort_unstable_by(|a, b| b.cmp(a));
    let shown = times.iter().map(|(ms, cause)| format!("{} {}", human_age(*ms), plain(cause)));
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_answer_is_readable_and_foreign_text_is_escaped() {
        let why = json!({
            "cause": "halted", "explanation": "Message 33 is halted; the last error was: no\u{1b}[2J",
            "key": "a b", "blocked_ms": 61_000,
            "blocked_ms_by_cause": {"halted": 1_000, "processing": 59_000}, "behind": 1, "bytes_behind": 2048,
            "head": {"sequence": 33, "id": "x", "age_ms": 1000, "state": "halted"},
            "summary": ["8 messages wait."], "owner": "ab12", "owner_seen_at": "2026-11-23T10:00:00Z",
            "actions": [{"when": "if the cause is gone", "command": "reseq lanes retry erp"},
                {"when": "else", "command": "reseq lanes skip erp"}],
        });
        let expected = "head    33 of key \"a b\", id x, 1.0 s old\n\
             state   halted (halted)\n\
             why     Message 33 is halted; the last error was: no\\u{1b}[2J\n\
             since   1 min 1 s (it became the head then)\n\
             of that 59.0 s processing, 1.0 s halted\n\
             in all  8 messages wait.\n\
             owner   ab12, last heartbeat 2026-11-23T10:00:00Z\n\
             behind  1 message, 2.00 KiB\n\
             do      if the cause is gone  reseq lanes retry erp\n\
             \u{20}       else                  reseq lanes skip erp\n";
        let plain = anstream::adapter::strip_str(&shown(&why)).to_string();
        assert_eq!(plain, expected);
        assert_eq!(shown(&json!({"head": null})), "nothing is pending\n");
        let without_redis = json!({"head": null, "cause": "redis", "explanation": "No answer."});
        let plain = anstream::adapter::strip_str(&shown(&without_redis)).to_string();
        assert_eq!(plain, "why     No answer.\n");
        let action = json!({"when": "if one is missing", "command": "reseq sources list erp"});
        let idle = json!({"head": null, "cause": "nothing", "summary": ["a up to 1."], "actions": [action]});
        let plain = anstream::adapter::strip_str(&shown(&idle)).to_string();
        let expected = "nothing is pending\nin all  a up to 1.\n\
             do      if one is missing  reseq sources list erp\n";
        assert_eq!(plain, expected);
    }
}
