use axum::http::HeaderName;
use bytes::Bytes;

use super::*;
use crate::Recipients;
use domain::Body;

/// No expression can run.
fn keys() -> Keys {
    let program = Program::new("/nonexistent/reseq");
    Keys { evaluators: Evaluators::new(OUTPUT_BYTES_MAX, program) }
}

fn arrival(headers: &[(&str, &str)]) -> Arrival {
    let body = Body { content_type: "application/json".into(), bytes: Bytes::from_static(b"{}") };
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let headers = headers.iter().map(owned).collect();
    Arrival::of(Message { id: "i".into(), key: None, headers, body, received_ms: 0 })
}

fn destination(key: Option<KeySource>, idempotency_key: Option<KeySource>) -> Destination {
    let name = "erp".parse().unwrap();
    Destination {
        key_from: key,
        idempotency_key_from: idempotency_key,
        ..Destination::new(name, "http://h/")
    }
}

fn header(name: &str) -> Option<KeySource> {
    Some(KeySource::Header(name.to_owned()))
}

async fn found(
    copies: Vec<CopyResult>,
    request: Option<&HeaderMap>,
    destination: &Destination,
) -> Vec<CopyResult> {
    let (to, request) = (Recipients::Topic("orders".parse().unwrap()), request.cloned());
    let draft = Draft { to, arrival: arrival(&[]), request, is_id_final: true };
    let copies = copies.into_iter().map(|copy| (copy, Some(&draft)));
    keys().find_all(copies.collect(), destination, &CancellationToken::new()).await
}

#[tokio::test]
async fn a_header_of_the_request_is_a_key_whether_it_travels_or_not() {
    let pairs = [("x-tenant", "t=1"), ("x-github-delivery", "72d3162e"), ("cookie", "a=1")];
    let request: HeaderMap = pairs
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .into_iter()
        .collect();
    let erp = destination(header("X-Tenant"), header("X-GitHub-Delivery"));
    let one = found(vec![Ok(arrival(&[]))], Some(&request), &erp).await.remove(0).unwrap();
    assert_eq!(one.message.key.as_deref(), Some("t=1"));
    assert_eq!(one.idempotency_key.as_deref(), Some("72d3162e"));
    // What the producer gives wins.
    let mut given = arrival(&[]);
    given.message.key = Some("mine".into());
    let one = found(vec![Ok(given)], Some(&request), &erp).await.remove(0).unwrap();
    assert_eq!(one.message.key.as_deref(), Some("mine"));
    assert_eq!(one.idempotency_key.as_deref(), Some("72d3162e"));
    // A definition that was stored when that was allowed.
    let old = destination(header("Cookie"), header("Authorization"));
    let one = found(vec![Ok(arrival(&[]))], Some(&request), &old).await.remove(0).unwrap();
    assert_eq!((one.message.key, one.idempotency_key), (None, None));
}

#[tokio::test]
async fn without_one_text_in_the_header_there_is_no_key() {
    let erp = destination(None, header("x-id"));
    let of = |values: &[&[u8]]| -> HeaderMap {
        let name = HeaderName::from_static("x-id");
        values.iter().map(|v| (name.clone(), HeaderValue::from_bytes(v).unwrap())).collect()
    };
    let table: [(&[&[u8]], &str); 6] = [
        (&[], "the message has no header x-id"),
        (&[b"a", b"b"], "twice, with different values"),
        (&[b"\xff"], "not UTF-8"),
        (&[b""], "the key: must be 1 to 256 bytes"),
        (&[&[b'x'; 257]], "the key: must be 1 to 256 bytes"),
        (&[b"a\tb"], "control characters"),
    ];
    for (values, part) in table {
        let refusal = found(vec![Ok(arrival(&[]))], Some(&of(values)), &erp).await.remove(0);
        let refusal = refusal.unwrap_err();
        assert_eq!((refusal.code().as_str(), refusal.is_temporary()), ("no_key", false));
        let text = refusal.to_string();
        assert!(text.starts_with("idempotency_key_from of erp: ") && text.contains(part), "{text}");
    }
    let same = of(&[b"a", b"a"]);
    let one = found(vec![Ok(arrival(&[]))], Some(&same), &erp).await.remove(0).unwrap();
    assert_eq!(one.idempotency_key.as_deref(), Some("a"));
}

#[tokio::test]
async fn message_without_a_request_has_only_headers_that_it_names() {
    let erp = destination(header("X-Account"), None);
    let copies = vec![
        Ok(arrival(&[("x-account", "7")])),
        Ok(arrival(&[])),
        Err(Refusal::invalid_field("body: missing")),
        Ok(arrival(&[("x-account", "8")])),
    ];
    let found = found(copies, None, &erp).await;
    let seen: Vec<Result<&str, &str>> = found
        .iter()
        .map(|one| match one {
            Ok(arrival) => Ok(arrival.message.key.as_deref().unwrap()),
            Err(refusal) => Err(refusal.code().as_str()),
        })
        .collect();
    // In their order: what is refused for good stops nothing.
    assert_eq!(seen, [Ok("7"), Err("no_key"), Err("invalid_field"), Ok("8")]);
}

#[tokio::test]
async fn messages_behind_an_unavailable_key_are_not_stored() {
    let erp = destination(Some(KeySource::Jq(".customer".into())), None);
    let mut given = arrival(&[]);
    given.message.key = Some("mine".into());
    let copies = vec![Ok(given.clone()), Ok(arrival(&[])), Ok(given), Ok(arrival(&[]))];
    let found = found(copies, None, &erp).await;
    let codes = found.iter().map(|one| one.as_ref().map_err(|refusal| refusal.code().as_str()));
    let codes: Vec<Option<&str>> = codes.map(Result::err).collect();
    assert_eq!(codes, [None, Some("key_unavailable"), Some("aborted"), Some("aborted")]);
    let text = found[1].as_ref().unwrap_err().to_string();
    assert!(text.contains("key_from of erp: no expression can be run: /nonexistent/"), "{text}");
}

#[tokio::test]
async fn a_process_that_stops_finds_no_more_keys() {
    let erp = destination(header("x-account"), None);
    let stop = CancellationToken::new();
    stop.cancel();
    let copy = || Ok(arrival(&[("x-account", "7")]));
    let copies = (0..3).map(|_| (copy(), None));
    let found = keys().find_all(copies.collect(), &erp, &stop).await;
    let codes = found.iter().map(|one| one.as_ref().err().map(|refusal| refusal.code().as_str()));
    assert_eq!(codes.collect::<Vec<_>>(), [None, Some("draining"), Some("aborted")]);
}
