//! Tests requests with wrong signatures, each with its exact answer, and definitions that would verify nothing.

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::Method;
use ring::{
    hmac,
    signature::{Ed25519KeyPair, KeyPair},
};
use serde_json::{Value, json};

use super::{
    GITHUB, Headers, SLACK, STANDARD, STRIPE, Service, github, hex, now, path, position, said,
    sha256, slack, standard, stripe,
};
use crate::support::pods::client;

const BODY: &str = r#"{"n": 1}"#;
const NOT_RIGHT: &str = "no secret of the destination gives this signature of this body";
const NOT_COVERED: &str =
    "the signature does not cover it, so anybody could have set it; leave it out, or send a token";

/// A request, and its expected answer.
struct Case {
    name: &'static str,
    destination: &'static str,
    headers: Headers,
    body: String,
    status: u16,
    code: &'static str,
    detail: String,
}

/// The cases for one destination.
struct Cases {
    destination: &'static str,
    /// The headers of a correct request.
    right: Headers,
    all: Vec<Case>,
}

impl Cases {
    fn new(destination: &'static str, right: Headers) -> Cases {
        Cases { destination, right, all: Vec::new() }
    }

    fn add(&mut self, name: &'static str, headers: Headers, code: &'static str, detail: &str) {
        let status = if code == "invalid_field" { 400 } else { 401 };
        let (destination, detail, body) = (self.destination, detail.to_owned(), BODY.to_owned());
        self.all.push(Case { name, destination, headers, body, status, code, detail });
    }

    fn invalid(&mut self, name: &'static str, headers: Headers, detail: &str) {
        self.add(name, headers, "invalid_signature", detail);
    }

    /// Adds the correct request with one changed header.
    fn with(&mut self, name: &'static str, header: &'static str, value: &str, detail: &str) {
        let headers = self.changed(header, value);
        self.invalid(name, headers, detail);
    }

    fn changed(&self, header: &'static str, value: &str) -> Headers {
        let mut headers = self.right.clone();
        headers
            .iter_mut()
            .filter(|(name, _)| *name == header)
            .for_each(|(_, old)| *old = value.to_owned());
        headers
    }

    /// Adds the correct request without one header.
    fn without(&mut self, name: &'static str, header: &str) {
        let headers = self.right.iter().filter(|(known, _)| *known != header).cloned().collect();
        self.invalid(name, headers, &format!("{header}: is missing"));
    }

    /// Adds the correct request with one more header.
    fn and(
        &mut self,
        name: &'static str,
        header: &'static str,
        value: &str,
        code: &'static str,
        detail: &str,
    ) {
        let mut headers = self.right.clone();
        headers.push((header, value.to_owned()));
        self.add(name, headers, code, detail);
    }

    /// Adds the correct headers with another body.
    fn body(&mut self, name: &'static str, body: &str, header: &str) {
        let headers = self.right.clone();
        self.invalid(name, headers, &format!("{header}: {NOT_RIGHT}"));
        self.all.last_mut().unwrap().body = body.to_owned();
    }

    fn outside(&mut self, name: &'static str, headers: Headers, header: &str, side: &str) {
        let detail = format!(
            "{header}: the time of the signature is N s {side}; verify.tolerance_ms allows 300000 ms"
        );
        self.add(name, headers, "timestamp_outside_tolerance", &detail);
    }

    fn none(&mut self, name: &'static str, headers: Headers, header: &str) {
        let detail = format!(
            "the destination verifies signatures, and the request has no header {header}; sign it, or send a \
             token with the scope ingest"
        );
        self.add(name, headers, "no_signature", &detail);
    }
}

fn of_standard(now: u64) -> Vec<Case> {
    let (id, time, sig) = ("webhook-id", "webhook-timestamp", "webhook-signature");
    let right = standard(STANDARD, "msg_1", now, BODY);
    let value = right[2].1.clone();
    let mut cases = Cases::new("standard", right.clone());
    let c = &mut cases;
    let wrong = &format!("{sig}: {NOT_RIGHT}");
    let form = &format!("{sig}: must have the form v1,<base64>");
    let encoded = &format!("{sig}: the signature is not base64");
    let version = &format!("{sig}: has no signature of a version that Reseq knows");
    let digits = &format!("{time}: the time must be the seconds since 1970, as digits");
    c.none("nothing", Headers::new(), sig);
    c.none("id and time without a signature", right[..2].to_vec(), sig);
    c.with("an empty signature", sig, "", version);
    c.with("a version without a signature", sig, "v1", form);
    c.with("a signature without a version", sig, &value[3..], form);
    c.with("nothing behind the comma", sig, "v1,", encoded);
    c.with("no base64", sig, "v1,%%%%", encoded);
    c.with("base64 for URLs", sig, "v1,-_-_", encoded);
    c.with("base64 without its padding", sig, value.trim_end_matches('='), encoded);
    c.with("three bytes", sig, "v1,AAAA", wrong);
    c.with("an unknown version", sig, &value.replace("v1,", "v2,"), version);
    c.with("a version in capitals", sig, &value.replace("v1,", "V1,"), version);
    c.with("an HMAC as v1a", sig, &value.replace("v1,", "v1a,"), wrong);
    c.with("signatures with commas between them", sig, &format!("{value},{value}"), encoded);
    c.with(
        "eleven signatures",
        sig,
        &[value.as_str(); 11].join(" "),
        &format!("{sig}: has more than 10 signatures"),
    );
    c.and(
        "two signature headers",
        sig,
        &value,
        "invalid_signature",
        &format!("{sig}: is there twice"),
    );
    let tag = BASE64_STANDARD.decode(&value[3..]).unwrap();
    let v1 = |tag: &[u8]| format!("v1,{}", BASE64_STANDARD.encode(tag));
    c.with("a byte less", sig, &v1(&tag[..31]), wrong);
    c.with("a byte more", sig, &v1(&[&tag[..], &[0]].concat()), wrong);
    c.with("another first byte", sig, &v1(&[&[tag[0] ^ 1], &tag[1..]].concat()), wrong);
    c.with("another last byte", sig, &v1(&[&tag[..31], &[tag[31] ^ 1]].concat()), wrong);
    c.with("zeros", sig, &v1(&[0; 32]), wrong);
    c.with("in hex", sig, &format!("v1,{}", hex(&tag)), wrong);
    let key = BASE64_STANDARD.decode(&STANDARD[6..]).unwrap();
    let content = format!("msg_1.{now}.{BODY}");
    c.with(
        "with the text of the secret as key",
        sig,
        &v1(&sha256(STANDARD.as_bytes(), &content)),
        wrong,
    );
    c.with(
        "with the base64 of the secret as key",
        sig,
        &v1(&sha256(&STANDARD.as_bytes()[6..], &content)),
        wrong,
    );
    c.with("with an empty key", sig, &v1(&sha256(b"", &content)), wrong);
    c.with("of the body alone", sig, &v1(&sha256(&key, BODY)), wrong);
    c.with("of time and body", sig, &v1(&sha256(&key, &format!("{now}.{BODY}"))), wrong);
    c.with("without full stops", sig, &v1(&sha256(&key, &format!("msg_1{now}{BODY}"))), wrong);
    c.with(
        "of another destination's secret",
        sig,
        &v1(&sha256(GITHUB.as_bytes(), &content)),
        wrong,
    );
    c.body("an empty body", "", sig);
    c.body("a line feed more", &format!("{BODY}\n"), sig);
    c.body("the same JSON, written in another way", r#"{"n":1}"#, sig);
    c.body("another body", r#"{"n": 2}"#, sig);
    c.with("another id", id, "msg_2", wrong);
    c.with("an empty id", id, "", &format!("{id}: must be 1 to 256 bytes long"));
    c.with("a long id", id, &"x".repeat(257), &format!("{id}: must be 1 to 256 bytes long"));
    c.with("an id with a full stop", id, "msg.1", &format!("{id}: must not contain a full stop"));
    c.without("no id", id);
    c.and("two ids", id, "msg_2", "invalid_signature", &format!("{id}: is there twice"));
    c.without("no time", time);
    c.and("two times", time, "1", "invalid_signature", &format!("{time}: is there twice"));
    c.with("another time", time, &(now - 1).to_string(), wrong);
    c.with("a time with a sign", time, &format!("+{now}"), digits);
    c.with("a negative time", time, "-1", digits);
    c.with("an empty time", time, "", digits);
    c.with("a time with an exponent", time, "1e9", digits);
    c.with("a time with a fraction", time, &format!("{now}.0"), digits);
    c.with("a time of 14 digits", time, "10000000000000", digits);
    c.with("a time as in RFC 3339", time, "2026-11-24T10:00:00Z", digits);
    c.outside("a recorded request", standard(STANDARD, "msg_1", now - 400, BODY), time, "ago");
    c.outside("from the future", standard(STANDARD, "msg_1", now + 400, BODY), time, "ahead");
    c.outside("in milliseconds", standard(STANDARD, "msg_1", now * 1000, BODY), time, "ahead");
    c.outside("of 1970", standard(STANDARD, "msg_1", 0, BODY), time, "ago");
    let own = "reseq-signature: no secret of the destination gives this signature of the Reseq-* headers and this body";
    c.and(
        "the signature of the headers is another",
        "reseq-signature",
        &value,
        "invalid_signature",
        own,
    );
    c.and(
        "the signature of the headers is none",
        "reseq-signature",
        "x",
        "invalid_signature",
        "reseq-signature: must have the form v1,<base64>",
    );
    for (name, header, shown) in [
        ("a key that is not signed", "reseq-key", "Reseq-Key"),
        ("an id that is not signed", "reseq-id", "Reseq-Id"),
        ("a delay that is not signed", "reseq-delay", "Reseq-Delay"),
        ("a due time that is not signed", "reseq-due-at", "Reseq-Due-At"),
        ("a priority that is not signed", "reseq-priority", "Reseq-Priority"),
    ] {
        c.and(name, header, "1", "invalid_field", &format!("{shown}: {NOT_COVERED}"));
    }
    cases.all
}

/// A destination with only a public key.
fn of_public(now: u64) -> (String, Vec<Case>) {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[5; 32]).unwrap();
    let other = Ed25519KeyPair::from_seed_unchecked(&[6; 32]).unwrap();
    let content = format!("msg_1.{now}.{BODY}");
    let v1a = |bytes: &[u8]| format!("v1a,{}", BASE64_STANDARD.encode(bytes));
    let right = pair.sign(content.as_bytes());
    let sig = "webhook-signature";
    let headers = vec![
        ("webhook-id", "msg_1".to_owned()),
        ("webhook-timestamp", now.to_string()),
        (sig, v1a(right.as_ref())),
    ];
    let mut cases = Cases::new("public", headers);
    let wrong = &format!("{sig}: {NOT_RIGHT}");
    let mut with = |name, value: &str| cases.with(name, sig, value, wrong);
    let forged = hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA256, pair.public_key().as_ref()),
        content.as_bytes(),
    );
    with("an HMAC with the public key", &format!("v1,{}", BASE64_STANDARD.encode(forged)));
    with("the signature as v1", &format!("v1,{}", BASE64_STANDARD.encode(right.as_ref())));
    with("of another key", &v1a(other.sign(content.as_bytes()).as_ref()));
    with("of another content", &v1a(pair.sign(BODY.as_bytes()).as_ref()));
    with("63 bytes", &v1a(&right.as_ref()[..63]));
    with("64 zeros", &v1a(&[0; 64]));
    cases.body("another body under v1a", "{}", sig);
    (format!("whpk_{}", BASE64_STANDARD.encode(pair.public_key())), cases.all)
}

fn of_stripe(now: u64) -> Vec<Case> {
    let sig = "stripe-signature";
    let tag = |content: &str| hex(&sha256(STRIPE.as_bytes(), content));
    let right = tag(&format!("{now}.{BODY}"));
    let mut cases = Cases::new("stripe", stripe(now, BODY));
    let c = &mut cases;
    let wrong = &format!("{sig}: {NOT_RIGHT}");
    let form = &format!("{sig}: must have the form t=<time>,v1=<signature>");
    let digits = &format!("{sig}: the time must be the seconds since 1970, as digits");
    let version = &format!("{sig}: has no signature of a version that Reseq knows");
    let not_hex = &format!("{sig}: the signature is not hexadecimal digits");
    c.none("nothing for Stripe", Headers::new(), sig);
    c.with("no pairs", sig, "garbage", form);
    c.with("an empty header", sig, "", form);
    c.with("no time for Stripe", sig, &format!("v1={right}"), &format!("{sig}: has no time (t=…)"));
    c.with("only the signature of tests", sig, &format!("t={now},v0={right}"), version);
    c.with(
        "two times for Stripe",
        sig,
        &format!("t=1,t={now},v1={right}"),
        &format!("{sig}: has two times"),
    );
    c.with("an empty time for Stripe", sig, &format!("t=,v1={right}"), digits);
    c.with("a time that is no number", sig, &format!("t=now,v1={right}"), digits);
    c.with("another time for Stripe", sig, &format!("t={},v1={right}", now - 1), wrong);
    c.with("not hex", sig, &format!("t={now},v1={}", "g".repeat(64)), not_hex);
    c.with("an odd number of digits", sig, &format!("t={now},v1={}", &right[1..]), not_hex);
    c.with("an empty signature for Stripe", sig, &format!("t={now},v1="), not_hex);
    c.with("half of the signature", sig, &format!("t={now},v1={}", &right[..32]), wrong);
    c.with("of the body alone for Stripe", sig, &format!("t={now},v1={}", tag(BODY)), wrong);
    c.with(
        "of another body for Stripe",
        sig,
        &format!("t={now},v1={}", tag(&format!("{now}.{{}}"))),
        wrong,
    );
    let many = format!("t={now}{}", format!(",v1={right}").repeat(11));
    c.with(
        "eleven signatures for Stripe",
        sig,
        &many,
        &format!("{sig}: has more than 10 signatures"),
    );
    let value = c.right[0].1.clone();
    c.and(
        "two headers for Stripe",
        sig,
        &value,
        "invalid_signature",
        &format!("{sig}: is there twice"),
    );
    c.outside("recorded at Stripe", stripe(now - 400, BODY), sig, "ago");
    c.outside("of Stripe's future", stripe(now + 400, BODY), sig, "ahead");
    c.body("another body for Stripe", "{}", sig);
    cases.all
}

fn of_github() -> Vec<Case> {
    let (sig, delivery) = ("x-hub-signature-256", "x-github-delivery");
    let right = github("d1", BODY);
    let value = right[1].1.clone();
    let mut cases = Cases::new("github", right.clone());
    let c = &mut cases;
    let wrong = &format!("{sig}: {NOT_RIGHT}");
    let prefix = &format!("{sig}: must begin with sha256=");
    let not_hex = &format!("{sig}: the signature is not hexadecimal digits");
    c.none("nothing for GitHub", right[..1].to_vec(), sig);
    c.none(
        "only the signature with SHA-1",
        vec![(delivery, "d1".into()), ("x-hub-signature", "sha1=00".into())],
        sig,
    );
    c.with("no prefix", sig, &value[7..], prefix);
    c.with("another hash", sig, &value.replace("sha256", "sha512"), prefix);
    c.with("a prefix in capitals", sig, &value.replace("sha256", "SHA256"), prefix);
    c.with("nothing behind the prefix", sig, "sha256=", not_hex);
    c.with("63 digits", sig, &value[..value.len() - 1], not_hex);
    c.with("62 digits", sig, &value[..value.len() - 2], wrong);
    c.with("66 digits", sig, &format!("{value}00"), wrong);
    let tag = BASE64_STANDARD.encode(sha256(GITHUB.as_bytes(), BODY));
    c.with("base64 for GitHub", sig, &format!("sha256={tag}"), not_hex);
    c.with(
        "of a secret with a space more",
        sig,
        &format!("sha256={}", hex(&sha256(format!("{GITHUB} ").as_bytes(), BODY))),
        wrong,
    );
    c.and(
        "two headers for GitHub",
        sig,
        &value,
        "invalid_signature",
        &format!("{sig}: is there twice"),
    );
    c.body("another body for GitHub", "{}", sig);
    c.body("a byte order mark", &format!("\u{feff}{BODY}"), sig);
    cases.all
}

fn of_slack(now: u64) -> Vec<Case> {
    let (sig, time) = ("x-slack-signature", "x-slack-request-timestamp");
    let right = slack(now, BODY);
    let value = right[1].1.clone();
    let mut cases = Cases::new("slack", right.clone());
    let c = &mut cases;
    let wrong = &format!("X-Slack-Signature: {NOT_RIGHT}");
    c.none("nothing for an HMAC", right[..1].to_vec(), "X-Slack-Signature");
    c.with(
        "another prefix",
        sig,
        &value.replace("v0=", "v1="),
        "X-Slack-Signature: must begin with v0=",
    );
    c.with("no prefix for an HMAC", sig, &value[3..], "X-Slack-Signature: must begin with v0=");
    c.with(
        "of the body alone for an HMAC",
        sig,
        &format!("v0={}", hex(&sha256(SLACK.as_bytes(), BODY))),
        wrong,
    );
    let headers = right[1..].to_vec();
    c.invalid("no time for an HMAC", headers, "X-Slack-Request-Timestamp: is missing");
    let form = "X-Slack-Request-Timestamp: must be the seconds or milliseconds since 1970, or a time as in RFC 3339";
    c.with("no time at all", time, "yesterday", form);
    c.with("another time for an HMAC", time, &(now + 1).to_string(), wrong);
    c.with("the same time in milliseconds", time, &(now * 1000).to_string(), wrong);
    let header = "X-Slack-Request-Timestamp";
    c.outside("recorded at an HMAC", slack(now - 400, BODY), header, "ago");
    let of_1985 = c.changed(time, "1985-04-12T23:20:50Z");
    c.outside("a time of 1985", of_1985, header, "ago");
    let before_1970 = c.changed(time, "1969-01-01T00:00:00Z");
    c.invalid("a time before 1970", before_1970, form);
    c.body("another body for an HMAC", "{}", "X-Slack-Signature");
    cases.all
}

/// The detail of an answer without the number of seconds, which depends on the duration of the test.
fn without_seconds(detail: &str) -> String {
    let mut words: Vec<&str> = detail.split(' ').collect();
    if let Some(at) = words
        .windows(2)
        .position(|two| two[0] == "s" && (two[1].starts_with("ago") || two[1].starts_with("ahead")))
    {
        words[at - 1] = "N";
    }
    words.join(" ")
}

#[tokio::test]
async fn each_wrong_request_gets_its_answer_and_stores_nothing() {
    let service = Service::start(true).await;
    let now = now();
    let (public, of_public) = of_public(now);
    let put = |name: &str, definition: Value| {
        let path = format!("/v1/destinations/{name}");
        let request = client().request(Method::PUT, service.pod.url(&path));
        said(request.bearer_auth(super::ADMIN).json(&definition))
    };
    let url = service.receiver.url();
    let definition =
        json!({"url": url, "verify": {"kind": "standard_webhooks", "secrets": [public]}});
    assert_eq!(put("public", definition).await.0, 201);
    let cases = [of_standard(now), of_public, of_stripe(now), of_github(), of_slack(now)];
    let cases: Vec<Case> = cases.into_iter().flatten().collect();
    let mut names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() == cases.len() && cases.len() >= 100, "{} of {}", names.len(), cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let request = service.post(&path(case.destination), &case.headers, &case.body);
        let (status, answer) = said(request).await;
        let seen = (
            status,
            answer["code"].as_str().unwrap_or_default(),
            without_seconds(answer["detail"].as_str().unwrap_or_default()),
        );
        if seen != (case.status, case.code, case.detail.clone()) {
            wrong.push(format!(
                "{}:\n  {seen:?}\n  {:?}",
                case.name,
                (case.status, case.code, &case.detail)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    // Afterwards the correct requests are accepted, as first messages.
    for (name, headers) in [
        ("standard", standard(STANDARD, "msg_1", super::now(), BODY)),
        ("stripe", stripe(super::now(), BODY)),
        ("github", github("d1", BODY)),
        ("slack", slack(super::now(), BODY)),
    ] {
        let request = service.post(&path(name), &headers, BODY);
        assert_eq!(position(&said(request).await), (1, false), "{name}");
    }

    // Definitions that would verify nothing, or something unintended.
    let good = "a secret of 16 bytes";
    let of = |kind: &str, fields: Value| {
        let mut verify = json!({"kind": kind, "secrets": [good]});
        fields.as_object().unwrap().iter().for_each(|(name, value)| verify[name] = value.clone());
        verify
    };
    for (name, verify, detail) in [
        ("no kind", json!({"secrets": [good]}), "verify: missing field `kind`"),
        ("no secrets", json!({"kind": "github"}), "verify: missing field `secrets`"),
        (
            "another kind",
            of("gitlab", json!({})),
            "verify.kind: unknown variant `gitlab` (did you mean `github`?), expected one of `standard_webhooks`, `stripe`, `github`, `hmac`",
        ),
        (
            "an empty list",
            of("github", json!({"secrets": []})),
            "verify.secrets: must have 1 to 10 secrets",
        ),
        (
            "eleven secrets",
            of("github", json!({"secrets": vec![good; 11]})),
            "verify.secrets: must have 1 to 10 secrets",
        ),
        (
            "a short secret",
            of("github", json!({"secrets": ["15 bytes is few"]})),
            "verify.secrets: secret 1: has 15 bytes, and must have 16 to 512",
        ),
        (
            "an empty secret",
            of("stripe", json!({"secrets": [good, ""]})),
            "verify.secrets: secret 2: has 0 bytes, and must have 16 to 512",
        ),
        (
            "a space at the end",
            of("github", json!({"secrets": ["a secret of 16 bytes "]})),
            "verify.secrets: secret 1: begins or ends with a space, or contains control characters",
        ),
        (
            "a mask of nothing",
            of("github", json!({"secrets": ["***"]})),
            "verify.secrets: has more masks than there are secrets; give their values",
        ),
        (
            "a text as a secret of Standard Webhooks",
            of("standard_webhooks", json!({})),
            "verify.secrets: secret 1: must begin with whsec_, whsk_ or whpk_, followed by base64",
        ),
        (
            "a private key",
            of(
                "standard_webhooks",
                json!({"secrets": [format!("whsk_{}", BASE64_STANDARD.encode([1; 32]))]}),
            ),
            "verify.secrets: secret 1: whsk_ is a private key, which only the sender needs; give the public one, which begins with whpk_",
        ),
        (
            "half a public key",
            of(
                "standard_webhooks",
                json!({"secrets": [format!("whpk_{}", BASE64_STANDARD.encode([1; 16]))]}),
            ),
            "verify.secrets: secret 1: whpk_ needs 32 bytes: an Ed25519 public key",
        ),
        (
            "a header for GitHub",
            of("github", json!({"header": "x"})),
            "verify.header: only the kind \"hmac\" has it; leave it out",
        ),
        (
            "a window for GitHub",
            of("github", json!({"tolerance_ms": 1000})),
            "verify.tolerance_ms: no time is signed; leave it out",
        ),
        (
            "a window of 0",
            of("stripe", json!({"tolerance_ms": 0})),
            "verify.tolerance_ms: 0 is outside 1000 to 86400000",
        ),
        (
            "a window of a week",
            of("stripe", json!({"tolerance_ms": 604_800_000})),
            "verify.tolerance_ms: 604800000 is outside 1000 to 86400000",
        ),
        (
            "an HMAC in no header",
            of("hmac", json!({})),
            "verify.header: the kind \"hmac\" needs the header of the signature",
        ),
        (
            "a time that is not signed",
            of("hmac", json!({"header": "x-s", "timestamp_header": "x-t", "signed": "{body}"})),
            "verify.signed: must contain {timestamp} once: anybody could change a time that is not signed",
        ),
        (
            "no body",
            of("hmac", json!({"header": "x-s", "signed": "x"})),
            "verify.signed: must contain {body} once",
        ),
        (
            "a reference",
            of("github", json!({"secrets": [{"file": "/etc/passwd"}]})),
            "verify.secrets[0]: must be a string; only a file of this machine may refer to a file or a variable",
        ),
    ] {
        let (status, answer) = put("bad", json!({"url": url, "verify": verify})).await;
        let seen = (status, &answer["code"], answer["detail"].as_str().unwrap());
        assert_eq!(seen, (400, &json!("invalid_field"), detail), "{name}");
    }
}
