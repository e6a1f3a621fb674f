//! Tests problems: the pages that explain them, and the parts of a request that they name.

use formats::code::Code;
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use super::{Service, said};

const JSON: &str = "application/json";
const ITEMS: &str = "/v1/messages";
const RAW: &str = "/v1/destinations/erp/messages";

#[tokio::test]
async fn problem_type_leads_to_a_page_that_explains_its_code() {
    let service = Service::start().await;
    let page = async |path: &str| {
        let answer = service.get(path).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200, "{path}");
        let media_type = answer.headers()["content-type"].to_str().unwrap().to_owned();
        assert!(media_type.starts_with("text/html"), "{path}: {media_type}");
        answer.text().await.unwrap()
    };
    let all = page("/problems").await;
    for code in Code::ALL {
        let text = page(&code.page()).await;
        assert!(text.contains(&format!("<code>{code}</code>")), "{code}: {text}");
        assert!(text.contains(code.title()) && text.contains(&code.shown_status()), "{code}");
        assert!(all.contains(&format!("href=\"{}\"", code.page())), "{code} is not listed");
    }

    // The OpenAPI document names the codes of each answer.
    let document = said(service.get("/openapi.json")).await.body;
    let mut named = Vec::new();
    for methods in document["paths"].as_object().unwrap().values() {
        for route in methods.as_object().unwrap().values() {
            for (status, answer) in route["responses"].as_object().unwrap() {
                let shared = answer["$ref"].as_str().map(|path| path.trim_start_matches('#'));
                let answer = shared.map_or(answer, |path| document.pointer(path).unwrap());
                let lines = answer["description"].as_str().unwrap().lines();
                let codes = lines.filter_map(|line| line.strip_prefix("- `")?.split('`').next());
                named.extend(codes.map(|code| (status.clone(), code.to_owned())));
            }
        }
    }
    assert!(named.len() > 300, "only {} codes of answers", named.len());
    for (status, name) in named {
        let code = Code::ALL.iter().find(|code| code.as_str() == name);
        let code = code.unwrap_or_else(|| panic!("an unknown code: {name}"));
        assert_eq!(code.status().as_str(), status, "{name}");
    }
    said(service.get("/problems/no_such_code")).await.is_problem(404, "not_found", "/problems");
}

#[tokio::test]
async fn problem_names_the_wrong_field_parameter_or_header() {
    let service = Service::start().await;
    service.define("work", json!({"transform": {"kind": "worker"}})).await;
    let item = |more: Value| {
        let mut item = json!({"destinations": ["erp"], "body": 1});
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        service.json(ITEMS, &item)
    };
    let define = |fields: Value| {
        let mut definition = json!({"url": "http://127.0.0.1:9/"});
        definition.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        service.put("crm", &definition)
    };
    let raw = |name: &'static str, value: &'static str| {
        service.post(RAW, "text/plain", "x").header(name, value)
    };
    let complete = |items: Value| service.json("/v1/leases/complete", &json!({"items": items}));
    let redrive = |body: Value| service.json("/v1/destinations/erp/dead-letters/redrive", &body);
    let cases: Vec<(RequestBuilder, &str, &str)> = vec![
        (define(json!({"url": "ftp://h/"})), "pointer", "#/url"),
        (define(json!({"delivery": {"lanes_max": 0}})), "pointer", "#/delivery/lanes_max"),
        (define(json!({"delivery": {"framing": "morse"}})), "pointer", "#/delivery/framing"),
        (define(json!({"transform": {"kind": "magic"}})), "pointer", "#/transform/kind"),
        (define(json!({"name": "erp"})), "pointer", "#/name"),
        (item(json!({"destinations": ["erp", 7]})), "pointer", "#/destinations/1"),
        (item(json!({"key": 7})), "pointer", "#/key"),
        (item(json!({"priority": 10})), "pointer", "#/priority"),
        (item(json!({"headers": {"x-a": "1\r\n2"}})), "pointer", "#/headers/x-a"),
        (item(json!({"headers": {"authorization": "x"}})), "pointer", "#/headers/authorization"),
        (complete(json!([{"token": "t", "body_base64": "?"}])), "pointer", "#/items/0"),
        (complete(json!([{"token": 7, "body": 1}])), "pointer", "#/items/0/token"),
        (redrive(json!({"filter": {"stage": "heaven"}})), "pointer", "#/filter/stage"),
        (redrive(json!({"filter": {"from_time": "soon"}})), "pointer", "#/filter/from_time"),
        (redrive(json!({"sequences": []})), "pointer", "#/sequences"),
        (service.put("C%20R%20M", &json!({})), "parameter", "destination"),
        (service.get("/v1/destinations/erp/messages/x"), "parameter", "sequence"),
        (service.get("/v1/destinations/erp/messages?limit=0"), "parameter", "limit"),
        (service.get("/v1/destinations/erp/messages?limit=ten"), "parameter", "limit"),
        (service.get("/v1/destinations/erp/messages?state=lost"), "parameter", "state"),
        (service.get("/v1/destinations/erp/log?from_time=soon"), "parameter", "from_time"),
        (service.get("/v1/destinations?cursors=a"), "parameter", "cursors"),
        (service.delete("/v1/destinations/work?force=maybe"), "parameter", "force"),
        (raw("Reseq-Delay", "soon"), "header", "Reseq-Delay"),
        (raw("Reseq-Priority", "high"), "header", "Reseq-Priority"),
        (raw("Reseq-Key", "%FF"), "header", "Reseq-Key"),
        (raw("Reseq-Kye", "a"), "header", "reseq-kye"),
        (raw("Idempotency-Key", "\"a"), "header", "Idempotency-Key"),
        (define(json!({})).header("If-None-Match", "\"7\""), "header", "If-None-Match"),
        (redrive(json!({"all": true})).header("Prefer", "wait=soon"), "header", "Prefer"),
    ];
    let before = service.holds().await;
    for (request, member, name) in cases {
        let answer = said(request).await;
        answer.is_problem(400, "invalid_field", "");
        let errors = answer.body["errors"].as_array().unwrap();
        assert_eq!((errors.len(), &errors[0][member]), (1, &json!(name)), "{}", answer.body);
    }
    assert_eq!(service.holds().await, before);

    // If no single field is the cause, the problem names the whole body.
    let answer = said(service.post(ITEMS, JSON, "7")).await;
    assert_eq!(answer.body["errors"][0]["pointer"], "#", "{}", answer.body);
    // In a batch, the answer to each line names the part of that line.
    let line = json!({"destinations": ["erp"], "body": 1, "key": 7}).to_string();
    let request = service.post(ITEMS, "application/x-ndjson", line);
    let text = request.send().await.unwrap().text().await.unwrap();
    let line: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["errors"][0]["pointer"], "#/key", "{line}");
}

#[tokio::test]
async fn an_unknown_field_is_told_with_the_nearest_known_one() {
    let service = Service::start().await;
    let url = "http://127.0.0.1:9/";
    for (request, named) in [
        (service.put("crm", &json!({"url": url, "wieght": 2})), "`weight`"),
        (service.put("crm", &json!({"url": url, "delivery": {"timeout": 2}})), "`timeout_ms`"),
        (service.put("crm", &json!({"url": url, "on_exhausted": "halted"})), "`halt`"),
        (service.json(ITEMS, &json!({"destinations": ["erp"], "bdy": 1})), "`body`"),
        (service.json("/v1/leases", &json!({"destination": ["erp"]})), "`destinations`"),
        (service.json("/v1/destinations/erp/purge", &json!({"dryrun": true})), "`dry_run`"),
        (
            service.json(
                "/v1/destinations/erp/dead-letters/redrive",
                &json!({"filter": {"reason": "x"}}),
            ),
            "`",
        ),
        (service.json("/v1/destinations/erp/replay", &json!({"from": 1})), "`from_"),
        (service.get("/v1/destinations/erp/messages?state=wait"), "`waiting`"),
    ] {
        let answer = said(request).await;
        answer.is_problem(400, "invalid_field", &format!("did you mean {named}"));
    }
}
