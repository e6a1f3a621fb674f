use uuid::Uuid;

use super::*;
use domain::message::{HEADERS_BYTES_MAX, HEADERS_MAX};

const BODY_BYTES_MAX: usize = 64;

fn parse(text: &str) -> Result<Draft, ItemError> {
    parse_item(text.as_bytes(), 1_700_000_000_000, limits(BODY_BYTES_MAX))
}

fn limits(body_bytes_max: usize) -> Limits {
    Limits { body_bytes_max, json_depth_max: 128 }
}

/// A valid item with these fields besides its destination.
fn with(fields: &str) -> String {
    format!(r#"{{"destinations": ["erp"], {fields}}}"#)
}

#[test]
fn everything_that_can_be_said_is_kept() {
    let item = parse(
        r#" {"destinations": ["erp", "crm"], "body": {"b" : 1.0, "a":"\u00fc"},
             "id": "order-7", "key": "kontō 7", "idempotency_key": "k1", "delay_ms": 0,
             "headers": {"X-Tenant": "7", "ce-type": "ü", "traceparent": "00-1"}} "#,
    )
    .unwrap();
    let names = ["erp", "crm"].map(|name| name.parse().unwrap());
    assert_eq!(item.to, Recipients::Destinations(names.into()));
    let pairs = [("x-tenant", "7"), ("ce-type", "ü"), ("traceparent", "00-1")];
    let message = Message {
        id: "order-7".into(),
        key: Some("kontō 7".into()),
        headers: pairs.map(|(name, value)| (name.into(), value.into())).into(),
        body: Body {
            content_type: "application/json".into(),
            bytes: Bytes::from_static(br#"{"b" : 1.0, "a":"\u00fc"}"#),
        },
        received_ms: 1_700_000_000_000,
    };
    assert_eq!(
        item.arrival,
        Arrival { idempotency_key: Some("k1".into()), ..Arrival::of(message) }
    );
}

#[test]
fn a_json_body_is_the_very_text_that_was_sent() {
    let large = "1".repeat(BODY_BYTES_MAX);
    for body in ["null", "false", "-0.0e+1", r#""""#, "[ ]", "{\"a\":1,\"a\":2}", &large] {
        let item = parse(&with(&format!(r#""body":  {body} "#))).unwrap();
        assert_eq!(item.arrival.message.body.bytes, body.as_bytes());
    }
}

#[test]
fn other_bodies_come_in_base64() {
    let body = parse(&with(r#""body_base64": "/wA=", "content_type": "image/x""#)).unwrap();
    let bytes = Bytes::from_static(&[0xff, 0]);
    let expected = Body { content_type: "image/x".into(), bytes };
    assert_eq!(body.arrival.message.body, expected);

    let body = parse(&with(r#""body_base64": """#)).unwrap().arrival.message.body;
    assert_eq!((&*body.content_type, body.bytes.len()), ("application/octet-stream", 0));

    let longest = STANDARD.encode([7; BODY_BYTES_MAX]);
    assert!(parse(&with(&format!(r#""body_base64": "{longest}""#))).is_ok());
}

#[test]
fn an_item_without_an_id_gets_a_uuid_of_its_time() {
    let first = parse(&with(r#""body": 1"#)).unwrap().arrival.message;
    let second = parse(&with(r#""body": 1, "id": null, "key": null"#)).unwrap().arrival.message;
    assert_eq!(Uuid::parse_str(&first.id).unwrap().get_version_num(), 7);
    assert_ne!(first.id, second.id);
    assert_eq!(second.key, None);
}

#[test]
fn a_topic_stands_in_place_of_destinations() {
    let item = parse(r#"{"topic": "orders", "body": 1}"#).unwrap();
    assert_eq!(item.to, Recipients::Topic("orders".parse().unwrap()));
    let again = |id| {
        let text = format!(r#"{{"topic": "t", "body": 1, "idempotency_key": "k"{id}}}"#);
        parse(&text).unwrap().arrival.message.id
    };
    assert_eq!((again(""), again(r#", "id": "mine""#)), (again(""), "mine".to_owned()));
}

#[test]
fn an_id_is_final_unless_a_key_in_the_message_may_decide_it() {
    let is_final =
        |to: &str, more: &str| parse(&format!(r#"{{{to}, "body": 1{more}}}"#)).unwrap().is_id_final;
    let (one, two) = (r#""destinations": ["erp"]"#, r#""destinations": ["erp", "crm"]"#);
    let topic = r#""topic": "orders""#;
    assert!(is_final(one, ""));
    for many in [two, topic] {
        assert!(!is_final(many, "") && !is_final(many, r#", "key": "k""#));
        assert!(is_final(many, r#", "id": "i""#));
        assert!(is_final(many, r#", "idempotency_key": "k""#));
    }
}

#[test]
fn delays_and_priorities_are_kept() {
    let kept = |fields: &str| {
        let arrival = parse(&with(&format!(r#""body": 1, {fields}"#))).unwrap().arrival;
        (arrival.due, arrival.priority)
    };
    assert_eq!(kept(r#""delay_ms": 1500"#), (Some(Due::After(1500)), None));
    assert_eq!(kept(r#""delay_ms": 0, "priority": 0"#), (None, Some(0)));
    let time = r#""due_at": "2023-11-14T22:13:21Z", "delay_ms": 0, "priority": 9"#;
    assert_eq!(kept(time), (Some(Due::At(1_700_000_001_000)), Some(9)));
}

/// Rows: what is sent, the code, and a part of the detail.
fn assert_refused(table: &[(&str, &str, &str)]) {
    for (sent, code, part) in table {
        let error = parse(sent).expect_err(sent);
        assert_eq!(error.code.as_str(), *code, "{sent}: {error}");
        assert!(error.detail.contains(part), "{sent}: {error}");
    }
}

#[test]
fn what_is_not_json_is_refused() {
    assert_refused(&[
        ("", "invalid_json", "EOF"),
        ("{", "invalid_json", "EOF"),
        ("nonsense", "invalid_json", "column 2"),
        ("\u{feff}{}", "invalid_json", "expected value"),
        (r#"{"destinations": ["erp"], "body": 1} x"#, "invalid_json", "trailing"),
        (r#"{"destinations": ["erp"], "body": 1}{"#, "invalid_json", "trailing"),
        (r#"{"destinations": ["erp"], "body": {"a": }}"#, "invalid_json", "expected value"),
        (r#"{"destinations": ["erp"], "body": "#, "invalid_json", "EOF"),
        (r#"{"destinations": ["erp"], "body": 01}"#, "invalid_json", "number"),
    ]);
}

#[test]
fn bad_destinations_are_named() {
    let many = format!("{:?}", vec!["erp"; DESTINATIONS_MAX + 1]);
    assert_refused(&[
        ("7", "invalid_field", "expected a message as an object"),
        ("null", "invalid_field", "expected a message as an object"),
        (r#"[["erp"], 1]"#, "invalid_field", "object"),
        ("[]", "invalid_field", "object"),
        ("{}", "invalid_field", "destinations"),
        (r#"{"body": 1}"#, "invalid_field", "destinations"),
        (r#"{"destinations": [], "body": 1}"#, "invalid_field", "destinations"),
        (r#"{"destinations": "erp", "body": 1}"#, "invalid_field", "destinations"),
        (r#"{"destinations": ["a", 7], "body": 1}"#, "invalid_field", "destinations[1]"),
        (r#"{"destinations": ["a", "a"], "body": 1}"#, "invalid_field", "named twice"),
        (&format!(r#"{{"destinations": {many}, "body": 1}}"#), "invalid_field", "1 to 100"),
        (r#"{"destinations": ["a", "ERP"], "body": 1}"#, "unknown_destination", "ERP"),
        (r#"{"destinations": [""], "body": 1}"#, "unknown_destination", r#""""#),
        (r#"{"destinations": ["a{b}"], "body": 1}"#, "unknown_destination", "a{b}"),
        (&with(r#""topic": "t", "body": 1"#), "invalid_field", "topic: give either"),
        (&with(r#""topic": [], "body": 1"#), "invalid_field", "topic: "),
        (r#"{"topic": "T", "body": 1}"#, "unknown_topic", "T"),
        (r#"{"topic": "", "body": 1}"#, "unknown_topic", r#""""#),
    ]);
}

#[test]
fn unknown_and_bad_fields_are_named() {
    let long = "k".repeat(257);
    assert_refused(&[
        (&with(r#""body": 1, "colour": "red""#), "invalid_field", "colour"),
        (&with(r#""body": 1, "body": 2"#), "invalid_field", "duplicate field `body`"),
        (&with(r#""body": 1, "delay_ms": 31536000001"#), "invalid_field", "delay_ms: a message"),
        (&with(r#""body": 1, "due_at": "soon""#), "invalid_field", "due_at: a time"),
        (&with(r#""body": 1, "due_at": 7"#), "invalid_field", "due_at"),
        (
            &with(r#""body": 1, "due_at": "2023-11-14T22:13:21Z", "delay_ms": 1"#),
            "invalid_field",
            "due_at: give either",
        ),
        (&with(r#""body": 1, "priority": 10"#), "invalid_field", "priority: a priority is"),
        (&with(r#""body": 1, "priority": -1"#), "invalid_field", "priority"),
        (&with(r#""body": 1, "priority": "high""#), "invalid_field", "priority"),
        (&with(r#""body": 1, "delay_ms": -1"#), "invalid_field", "delay_ms"),
        (&with(r#""body": 1, "delay_ms": "1s""#), "invalid_field", "delay_ms"),
        (&with(r#""body": 1, "id": """#), "invalid_field", "id: must"),
        (&with(r#""body": 1, "id": 7"#), "invalid_field", "id: "),
        (&with(r#""body": 1, "key": "a\nb""#), "invalid_field", "key: must"),
        (&with(&format!(r#""body": 1, "key": "{long}""#)), "invalid_field", "key: must"),
        (&with(r#""body": 1, "idempotency_key": """#), "invalid_field", "idempotency_key: must"),
    ]);
}

#[test]
fn there_is_one_body_and_it_is_well_formed() {
    assert_refused(&[
        (&with(r#""key": "k""#), "invalid_field", "body: missing"),
        (&with(r#""body": 1, "body_base64": "AA==""#), "invalid_field", "not both"),
        (&with(r#""body": null, "body_base64": "AA==""#), "invalid_field", "not both"),
        (&with(r#""body": 1, "content_type": "a/b""#), "invalid_field", "content_type"),
        (&with(r#""body_base64": "A""#), "invalid_field", "body_base64"),
        (&with(r#""body_base64": "AA""#), "invalid_field", "body_base64"),
        (&with(r#""body_base64": "_-8=""#), "invalid_field", "body_base64"),
        (&with(r#""body_base64": "AA==", "content_type": "text""#), "invalid_field", "media type"),
        (&with(r#""body_base64": "AA==", "content_type": "a/ü""#), "invalid_field", "media type"),
        (
            &with(r#""body_base64": "AA==", "content_type": "a/b\r\nx: y""#),
            "invalid_field",
            "content_type",
        ),
    ]);
}

#[test]
fn headers_that_cannot_be_are_named() {
    let many: Vec<String> = (0..=HEADERS_MAX).map(|i| format!(r#""x-{i}": """#)).collect();
    let long = format!(r#""x-a": "{}""#, "v".repeat(HEADERS_BYTES_MAX));
    let table: &[(&str, &str)] = &[
        (r#""x-a b": "s""#, "headers.x-a b: is not a header name"),
        (r#""x-a\r\n": "s""#, r"headers.x-a\r\n: is not a header name"),
        (r#""x-ü": "s""#, "headers.x-ü: is not a header name"),
        (r#""": "s""#, "headers.: is not a header name"),
        (r#""x-a": "1\r\nhost: evil""#, "headers.x-a: its value"),
        (r#""x-a": "1", "X-A": "2""#, "headers.x-a: is given twice"),
        (r#""x-a": "1", "x-a": "1""#, "headers.x-a: is given twice"),
        (r#""x-a": 7"#, "headers.x-a: invalid type"),
        (r#""x-a": ["1"]"#, "headers.x-a: invalid type"),
        (r#""x-a": null"#, "headers.x-a: invalid type"),
        (&many.join(", "), "headers: more than 64"),
        (&long, "headers: more than 16384 bytes"),
    ];
    for (headers, part) in table {
        let error = parse(&with(&format!(r#""body": 1, "headers": {{{headers}}}"#))).unwrap_err();
        assert_eq!(error.code.as_str(), "invalid_field", "{error}");
        assert!(error.detail.contains(part), "{headers}: {error}");
    }
    let error = parse(&with(r#""body": 1, "headers": ["x-a"]"#)).unwrap_err();
    assert!(error.detail.contains("an object of strings"), "{error}");
}

#[test]
fn bodies_over_the_limit_are_too_large_and_not_decoded() {
    let over = "1".repeat(BODY_BYTES_MAX + 1);
    for fields in [
        format!(r#""body": {over}"#),
        format!(r#""body_base64": "{}""#, STANDARD.encode(&over)),
        format!(r#""body_base64": "{}""#, "!".repeat(4 * BODY_BYTES_MAX)),
    ] {
        assert_eq!(parse(&with(&fields)).unwrap_err().code.as_str(), "body_too_large", "{fields}");
    }
}

#[test]
fn depth_is_no_danger() {
    let depth = 1_000_000;
    let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let body = with(&format!(r#""body": {deep}"#));
    let of = |json_depth_max| {
        let limits = Limits { body_bytes_max: deep.len(), json_depth_max };
        parse_item(body.as_bytes(), 0, limits)
    };
    assert_eq!(of(depth).unwrap().arrival.message.body.bytes.len(), deep.len());
    let refused = of(depth - 1).unwrap_err();
    assert_eq!(refused.code.as_str(), "invalid_field");
    assert!(refused.detail.starts_with("body: nests deeper than 999999 levels"), "{refused}");
    for field in ["headers", "topic", "destinations", "key", "delay_ms", "colour", "body_base64"] {
        let sent = with(&format!(r#""body": 1, "{field}": {deep}"#));
        assert!(parse(&sent).is_err(), "{field}");
    }
    for sent in
        ["[".repeat(depth), "{\"a\":".repeat(depth), with("\"body\": ") + &"[".repeat(depth)]
    {
        assert!(parse(&sent).is_err());
    }
}

#[test]
fn what_is_sent_is_repeated_only_in_part() {
    let long = "x".repeat(100_000);
    for sent in [
        with(&format!(r#""{long}": 1"#)),
        with(&format!(r#""body": 1, "delay_ms": "{long}""#)),
        with(&format!(r#""body": 1, "headers": {{"{long}": 1}}"#)),
        format!(r#"{{"destinations": ["{long}"], "body": 1}}"#),
    ] {
        assert!(parse(&sent).unwrap_err().detail.chars().count() < 600);
    }
    assert_eq!(
        parse_item(b"{\"destinations\":[\"\xff\"]}", 0, limits(9)).unwrap_err().code.as_str(),
        "invalid_json"
    );
    let bad_utf8 = b"{\"destinations\":[\"erp\"],\"body\":\"\xff\"}";
    assert_eq!(parse_item(bad_utf8, 0, limits(9)).unwrap_err().code.as_str(), "invalid_json");
}
