//! Merges the answers of shards into one.

use serde_json::{Map, Value, json};

use super::Answer;

/// The states of an operation; the first of its shards' states is that of the whole.
const STATES: [&str; 5] = ["running", "failed", "interrupted", "cancelled", "succeeded"];

/// The fields that count messages.
const COUNTS: [&str; 7] =
    ["matched", "affected", "failed", "withdrawing", "gone", "duplicates", "without_body"];

/// The answers together: counts are sums, lists follow each other. What means one shard alone is left out.
pub(super) fn merged(destination: &str, answers: Vec<Answer>) -> Value {
    let with_shard = |Answer { shard, mut json, .. }: Answer| {
        let moved = json.get_mut("deliveries").and_then(Value::as_array_mut);
        moved.into_iter().flatten().for_each(|one| one["shard"] = json!(shard.shard_in_paths()));
        json
    };
    let whole = answers.into_iter().map(with_shard).reduce(both).unwrap_or_default();
    let Value::Object(mut fields) = whole else { return whole };
    fields.retain(|name, _| !name.ends_with("_sequence"));
    if fields.contains_key("destination") {
        fields.insert("destination".to_owned(), json!(destination));
    }
    Value::Object(fields)
}

fn both(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => Value::Object(fields_of_both(one, other)),
        (Value::Array(mut one), Value::Array(other)) => {
            one.extend(other);
            Value::Array(one)
        }
        (Value::Bool(one), Value::Bool(other)) => json!(one && other),
        (Value::Null, other) => other,
        (one, _) => one,
    }
}

fn fields_of_both(mut one: Map<String, Value>, other: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in other {
        let both = match one.remove(&name) {
            None => value,
            Some(known) if name == "state" => worse(known, value),
            Some(known) if COUNTS.contains(&name.as_str()) => sum(&known, &value),
            Some(Value::Object(known)) if name == "by_state" => sums(known, value),
            Some(known) => both(known, value),
        };
        one.insert(name, both);
    }
    one
}

fn sum(one: &Value, other: &Value) -> Value {
    json!(one.as_u64().unwrap_or_default() + other.as_u64().unwrap_or_default())
}

fn sums(mut one: Map<String, Value>, other: Value) -> Value {
    for (state, count) in other.as_object().into_iter().flatten() {
        let known = one.get(state).cloned().unwrap_or_default();
        one.insert(state.clone(), sum(&known, count));
    }
    Value::Object(one)
}

fn worse(one: Value, other: Value) -> Value {
    let rank = |state: &Value| STATES.iter().position(|known| state == known);
    if rank(&other) < rank(&one) { other } else { one }
}

/// The answer of the shard whose head cannot be read, or else is the oldest.
pub(super) fn oldest(answers: Vec<Answer>) -> Value {
    let rank = |Answer { json, .. }: &Answer| {
        let is_quiet = json["cause"] == "nothing" || json["cause"] == "draining";
        let is_unread = json["head"].is_null() && !is_quiet;
        (is_unread, json["head"]["age_ms"].as_u64())
    };
    let oldest = answers.into_iter().max_by_key(rank);
    let Some(Answer { shard, mut json, .. }) = oldest else { return Value::Null };
    json["shard"] = json!(shard.shard_in_paths());
    json
}
