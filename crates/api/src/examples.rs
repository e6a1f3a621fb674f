//! Examples in the OpenAPI document. A test runs each of them.

use serde_json::{Value, json};
use utoipa::openapi::{
    OpenApi,
    path::{Operation, ParameterBuilder, ParameterIn},
};

/// Values of the parameters in paths.
const PATHS: [(&str, &str); 4] = [
    ("destination", "orders"),
    ("topic", "all-orders"),
    ("id", "01a20b3e-5f0c-7cc1-9d5f-3b1f8a1f6d10"),
    ("code", "invalid_field"),
];

/// An example body of a request, by the id of the operation.
fn body_of(operation: &str) -> Option<Value> {
    Some(match operation {
        "send_messages" => json!({
            "destinations": ["orders"], "body": {"order": 7}, "key": "acct-7",
            "idempotency_key": "order-7", "headers": {"x-tenant": "7"},
        }),
        "roll_back_destination" => json!({"to": 1}),
        "define_destination" | "diff_destination" => json!({
            "url": "http://127.0.0.1:9001/in", "transform": {"kind": "worker"},
            "delivery": {"timeout_ms": 5000},
        }),
        "change_destination" => json!({"delivery": {"timeout_ms": 3000}}),
        "make_token" => {
            json!({"name": "orders-service", "scopes": ["ingest"], "destinations": ["orders"]})
        }
        "define_topic" => json!({"destinations": ["orders"]}),
        "pause" => json!({"what": "delivery"}),
        "resume" => json!({}),
        "retry_head" => json!({"all": true}),
        "skip_head" => json!({"sequence": 1}),
        "purge" | "repair" => json!({"dry_run": true}),
        "redrive" | "discard" => json!({"all": true, "dry_run": true}),
        "replay" => json!({"from_sequence": 1, "dry_run": true}),
        "claim" => json!({"destinations": ["orders"], "max": 16, "lease_ms": 30000}),
        "complete_leases" => json!({"items": [{"token": TOKEN, "body": {"order": 7}}]}),
        "fail_leases" => json!({"items": [{"token": TOKEN, "error": "no such account"}]}),
        "extend_leases" => json!({"items": [{"token": TOKEN, "lease_ms": 30000}]}),
        "requeue_leases" => json!({"items": [{"token": TOKEN}]}),
        "consume" => json!({"max": 16, "consumer": "host-7:1234"}),
        "accept_deliveries" | "extend_deliveries" | "requeue_deliveries" => {
            json!({"items": [{"token": TOKEN}]})
        }
        "refuse_deliveries" => json!({"items": [{"token": TOKEN, "error": "no paper"}]}),
        _ => return None,
    })
}

/// A placeholder for the token of a lease.
const TOKEN: &str = "the token of a lease";

/// Adds the examples.
pub(super) fn add_to(document: &mut OpenApi) {
    for item in document.paths.paths.values_mut() {
        for operation in
            [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch]
        {
            operation.iter_mut().for_each(add);
        }
    }
}

fn add(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        let value = match (parameter.name.as_str(), &parameter.parameter_in) {
            ("sequence", ParameterIn::Path) => Some(json!(1)),
            ("idempotency_key", ParameterIn::Query) => Some(json!("order-7")),
            ("name", ParameterIn::Query) => Some(json!("orders/3")),
            (name @ "id", ParameterIn::Query) | (name, ParameterIn::Path) => {
                PATHS.iter().find(|(known, _)| *known == name).map(|(_, value)| json!(value))
            }
            _ => None,
        };
        if value.is_some() {
            *parameter = ParameterBuilder::from(parameter.clone()).example(value).build();
        }
    }
    let Some(body) = operation.operation_id.as_deref().and_then(body_of) else { return };
    for (media_type, content) in operation.request_body.iter_mut().flat_map(|r| &mut r.content) {
        content.example = Some(match media_type.contains("ndjson") {
            true => json!(format!("{body}\n")),
            false => body.clone(),
        });
    }
}
