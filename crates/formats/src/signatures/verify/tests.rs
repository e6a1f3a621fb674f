//! Tests signatures with the examples of the specifications, and that forged ones are refused.

use base64::{Engine, prelude::BASE64_STANDARD};
use ring::signature::{Ed25519KeyPair, KeyPair};

use super::*;
use domain::hex::hex;

/// 2021-02-25, the time of the example of Standard Webhooks.
const NOW_MS: u64 = 1_614_265_330_000;

fn verify(text: &str) -> Verify {
    let mut destination = domain::Destination::new("erp".parse().unwrap(), "http://h/");
    destination.verify = Some(toml::from_str(text).unwrap());
    destination.validate().unwrap();
    destination.verify.unwrap()
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

fn checked(
    verify: &Verify,
    pairs: &[(&'static str, &str)],
    body: &[u8],
    now_ms: u64,
) -> Result<Claim, SignatureError> {
    let claim = Claim::read(verify, &headers(pairs), now_ms)?;
    claim.check(verify, body).map(|()| claim)
}

/// The example of Standard Webhooks and of its libraries.
const STANDARD: &str =
    "kind = \"standard_webhooks\"\nsecrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]";
const ID: (&str, &str) = ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek");
const TIME: (&str, &str) = ("webhook-timestamp", "1614265330");
const V1: (&str, &str) = ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
const BODY: &[u8] = br#"{"test": 2432232314}"#;

#[test]
fn standard_webhooks_example_is_accepted_within_its_window() {
    let verify = verify(STANDARD);
    let claim = checked(&verify, &[ID, TIME, V1], BODY, NOW_MS).unwrap();
    assert_eq!((claim.id(), claim.timestamp()), (Some(ID.1), Some(TIME.1)));
    assert!(!claim.covers_delivery_headers());
    for (away_ms, is_accepted) in [(300_000, true), (300_001, false)] {
        for now_ms in [NOW_MS - away_ms, NOW_MS + away_ms] {
            let checked = checked(&verify, &[ID, TIME, V1], BODY, now_ms);
            assert_eq!(checked.is_ok(), is_accepted, "{now_ms}: {checked:?}");
            if let Err(error) = checked {
                assert_eq!(error.coded().0, Code::TimestampOutsideTolerance);
            }
        }
    }
    // One valid signature among several is enough, and other versions are left out.
    let several = format!("v2,abc v1,{} {}", BASE64_STANDARD.encode([1; 32]), V1.1);
    assert!(checked(&verify, &[ID, TIME, (V1.0, &several)], BODY, NOW_MS).is_ok());
}

#[test]
fn whatever_is_changed_is_refused() {
    let standard = verify(STANDARD);
    let many = [V1.1; 11].join(" ");
    let prefix = format!(
        "v1,{}",
        BASE64_STANDARD.encode(&BASE64_STANDARD.decode(&V1.1[3..]).unwrap()[..31])
    );
    type Case<'a> = (&'a [(&'static str, &'a str)], &'a [u8], &'a str);
    let cases: [Case<'_>; 13] = [
        (&[ID, TIME, V1], b"{}", "no secret"),
        (&[("webhook-id", "msg_other"), TIME, V1], BODY, "no secret"),
        (&[ID, ("webhook-timestamp", "1614265331"), V1], BODY, "no secret"),
        (&[ID, TIME, (V1.0, &prefix)], BODY, "no secret"),
        (&[ID, TIME, (V1.0, "v1,")], BODY, "not base64"),
        (&[ID, TIME, (V1.0, "v1")], BODY, "must have the form"),
        (&[ID, TIME, (V1.0, "v2,AAAA")], BODY, "no signature of a version"),
        (&[ID, TIME, (V1.0, &many)], BODY, "more than 10"),
        (&[ID, TIME, V1, V1], BODY, "webhook-signature: is there twice"),
        (&[ID, V1], BODY, "webhook-timestamp: is missing"),
        (&[TIME, V1], BODY, "webhook-id: is missing"),
        (&[("webhook-id", "a.b"), TIME, V1], BODY, "full stop"),
        (&[ID, ("webhook-timestamp", "+1614265330"), V1], BODY, "digits"),
    ];
    for (pairs, body, problem) in cases {
        let error = checked(&standard, pairs, body, NOW_MS).unwrap_err();
        assert_eq!(error.coded().0, Code::InvalidSignature);
        assert!(error.to_string().contains(problem), "{problem}: {error}");
    }
    let error = checked(&standard, &[ID, TIME], BODY, NOW_MS).unwrap_err();
    assert_eq!(error, SignatureError::Missing("webhook-signature".into()));
    let other = verify(&STANDARD.replace("MfKQ", "MfKR"));
    assert!(checked(&other, &[ID, TIME, V1], BODY, NOW_MS).is_err());
}

#[test]
fn a_public_key_verifies_v1a_and_never_v1() {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap();
    let public = BASE64_STANDARD.encode(pair.public_key());
    let verify = verify(&format!("kind = \"standard_webhooks\"\nsecrets = [\"whpk_{public}\"]"));
    let content = signed_content("m", "1614265330", b"body");
    let text = BASE64_STANDARD.encode(pair.sign(&content));
    let checked = |signature: &str, body: &[u8]| {
        checked(&verify, &[("webhook-id", "m"), TIME, (V1.0, signature)], body, NOW_MS).is_ok()
    };
    assert!(checked(&format!("v1a,{text}"), b"body"));
    assert!(!checked(&format!("v1a,{text}"), b"bodY"));
    assert!(!checked(&format!("v1,{text}"), b"body"));
    // The public key is not secret, so an HMAC made with it must not count as a signature.
    let key = hmac::Key::new(hmac::HMAC_SHA256, pair.public_key().as_ref());
    let forged = BASE64_STANDARD.encode(hmac::sign(&key, &content));
    assert!(!checked(&format!("v1,{forged}"), b"body"));
}

#[test]
fn reseq_headers_are_covered_by_a_second_signature() {
    use crate::signatures::Signer;
    use domain::destination::{Secrets, Sign};
    let sign = Sign { secrets: Secrets::new(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]) };
    let mut sent = headers(&[("reseq-key", "a"), ("reseq-sequence", "7")]);
    Signer::new(&sign, || NOW_MS).sign(&mut sent, "m", b"body");
    let verify = verify(STANDARD);
    let check = |headers: &HeaderMap| {
        let claim = Claim::read(&verify, headers, NOW_MS)?;
        claim.check(&verify, b"body").map(|()| claim.covers_delivery_headers())
    };
    assert_eq!(check(&sent), Ok(true));
    for (name, value) in [("reseq-key", "b"), ("reseq-id", "x")] {
        let mut changed = sent.clone();
        changed.insert(name, value.parse().unwrap());
        assert!(check(&changed).unwrap_err().to_string().starts_with("reseq-signature"), "{name}");
    }
    sent.remove("reseq-signature");
    assert_eq!(check(&sent), Ok(false));
}

/// The example of GitHub's documentation.
#[test]
fn the_example_of_github_is_accepted() {
    let verify = verify("kind = \"github\"\nsecrets = [\"It's a Secret to Everybody\"]");
    let right = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let delivery = ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958");
    let name = "x-hub-signature-256";
    let signature = format!("sha256={right}");
    let claim = checked(&verify, &[(name, &signature), delivery], b"Hello, World!", 0).unwrap();
    // GitHub does not sign the id of the delivery.
    assert_eq!((claim.id(), claim.timestamp()), (None, None));
    for (signature, problem) in [
        (right.to_owned(), "must begin with sha256="),
        (format!("sha256={}", &right[..62]), "no secret"),
        (format!("sha256={}", &right[..63]), "hexadecimal"),
        (format!("sha256={}x", &right[..63]), "hexadecimal"),
        (format!("sha1={right}"), "must begin with sha256="),
        (format!("sha256={right}00"), "no secret"),
    ] {
        let pairs = [(name, signature.as_str()), delivery];
        let error = checked(&verify, &pairs, b"Hello, World!", 0).unwrap_err();
        assert!(error.to_string().contains(problem), "{signature}: {error}");
    }
}

#[test]
fn stripe_signs_time_and_body_and_may_give_several_signatures() {
    let secret = "whsec_test_secret_of_stripe";
    let verify = verify(&format!("kind = \"stripe\"\nsecrets = [\"{secret}\"]"));
    let sign = |time: &str, body: &str| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        hex(hmac::sign(&key, format!("{time}.{body}").as_bytes()).as_ref())
    };
    let right = sign("1614265330", "{}");
    let checked = |text: &str| {
        let pairs = [("stripe-signature", text)];
        super::tests::checked(&verify, &pairs, b"{}", NOW_MS)
    };
    let other = "0".repeat(64);
    for text in [
        format!("t=1614265330,v1={right}"),
        format!("t=1614265330,v1={other},v1={right},v0={other}"),
        format!("v1={right}, t=1614265330"),
    ] {
        let claim = checked(&text).unwrap();
        assert_eq!((claim.id(), claim.timestamp()), (None, Some("1614265330")));
    }
    for (text, code, problem) in [
        (format!("t=1614265330,v0={right}"), Code::InvalidSignature, "no signature"),
        (format!("t=1614265331,v1={right}"), Code::InvalidSignature, "no secret"),
        (format!("v1={right}"), Code::InvalidSignature, "has no time"),
        (format!("t=1,t=1614265330,v1={right}"), Code::InvalidSignature, "two times"),
        (format!("t=16142x,v1={right}"), Code::InvalidSignature, "digits"),
        ("garbage".to_owned(), Code::InvalidSignature, "must have the form"),
        (
            format!("t=1614265000,v1={}", sign("1614265000", "{}")),
            Code::TimestampOutsideTolerance,
            "330 s ago",
        ),
        (
            format!("t=1614265631,v1={}", sign("1614265631", "{}")),
            Code::TimestampOutsideTolerance,
            "301 s ahead",
        ),
    ] {
        let error = checked(&text).unwrap_err();
        assert!(error.coded().0 == code && error.to_string().contains(problem), "{text}: {error}");
    }
}

#[test]
fn signed_text_that_splits_in_two_ways_is_refused() {
    let secret = "8f742231b10e8888abcd99yyyzzz85a5";
    for (signed, id, other) in [
        ("{id}.{timestamp}.{body}", "msg-1", "msg-1.1614265329"),
        ("v1:{body}:{id}:{timestamp}", "msg-1", "a:msg-1"),
        ("{timestamp}--{id}--{body}", "msg-1", "msg-1-"),
    ] {
        let verify = verify(&format!(
            "kind = \"hmac\"\nsecrets = [\"{secret}\"]\nheader = \"x-s\"\ntimestamp_header = \"x-t\"\n\
             id_header = \"x-i\"\nsigned = \"{signed}\""
        ));
        let checked = |id: &str| {
            let text = signed.replace("{timestamp}", "1614265330").replace("{body}", "{}");
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            let tag = hex(hmac::sign(&key, text.replace("{id}", id).as_bytes()).as_ref());
            super::tests::checked(
                &verify,
                &[("x-s", &tag), ("x-t", "1614265330"), ("x-i", id)],
                b"{}",
                NOW_MS,
            )
        };
        assert_eq!(checked(id).unwrap().id(), Some(id), "{signed}");
        let error = checked(other).unwrap_err().to_string();
        assert!(error.contains("x-i: must not contain"), "{signed}: {error}");
    }
}

/// The schemes of Slack, Shopify and Zendesk.
#[test]
fn any_hmac_is_described_by_its_definition() {
    let secret = "8f742231b10e8888abcd99yyyzzz85a5";
    let of = |fields: &str| verify(&format!("kind = \"hmac\"\nsecrets = [\"{secret}\"]\n{fields}"));
    // The example of Slack's documentation.
    let slack = of("header = \"X-Slack-Signature\"\nprefix = \"v0=\"\n\
         timestamp_header = \"X-Slack-Request-Timestamp\"\nsigned = \"v0:{timestamp}:{body}\"");
    let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&\
                channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&\
                command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2F\
                commands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&\
                trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let pairs = [
        (
            "x-slack-signature",
            "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        ),
        ("x-slack-request-timestamp", "1531420618"),
    ];
    let claim = checked(&slack, &pairs, body.as_bytes(), 1_531_420_618_000).unwrap();
    assert_eq!((claim.id(), claim.timestamp()), (None, Some("1531420618")));
    assert!(checked(&slack, &pairs, b"token=other", 1_531_420_618_000).is_err());
    let base64 = |algorithm: hmac::Algorithm, content: &[u8]| {
        let tag = hmac::sign(&hmac::Key::new(algorithm, secret.as_bytes()), content);
        BASE64_STANDARD.encode(tag)
    };
    let shopify = of("header = \"x-shopify-hmac-sha256\"\nencoding = \"base64\"\n\
                      id_header = \"x-shopify-webhook-id\"");
    let signature = base64(hmac::HMAC_SHA256, b"{}");
    let pairs = [("x-shopify-hmac-sha256", &*signature), ("x-shopify-webhook-id", "b54557e4")];
    assert_eq!(checked(&shopify, &pairs, b"{}", 0).unwrap().id(), None, "it is not signed");
    // A time as in RFC 3339, and no separator.
    let zendesk = of("header = \"x-s\"\nencoding = \"base64\"\ntimestamp_header = \"x-t\"\n\
                      signed = \"{timestamp}{body}\"");
    for (time, is_accepted) in [
        ("2021-02-25T15:02:10Z", true),
        ("2021-02-25T16:02:10+01:00", true),
        ("1614265330", true),
        ("1614265330123", true),
        ("2021-02-25T15:12:10Z", false),
        ("16142653301234", false),
        ("yesterday", false),
    ] {
        let signature = base64(hmac::HMAC_SHA256, format!("{time}{{}}").as_bytes());
        let pairs = [("x-s", &*signature), ("x-t", time)];
        assert_eq!(checked(&zendesk, &pairs, b"{}", NOW_MS).is_ok(), is_accepted, "{time}");
    }
    let signature = base64(hmac::HMAC_SHA256, b"1614265330123");
    let pairs = [("x-s", &*signature), ("x-t", "1614265330")];
    let error = checked(&zendesk, &pairs, b"123", NOW_MS).unwrap_err().to_string();
    assert!(error.contains("where the time ends"), "{error}");
    for (name, algorithm) in [
        ("sha1", hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
        ("sha384", hmac::HMAC_SHA384),
        ("sha512", hmac::HMAC_SHA512),
    ] {
        let of = of(&format!(
            "header = \"x-s\"\nencoding = \"base64_url\"\nalgorithm = \"{name}\"\nsigned = \"{{body}}!\""
        ));
        let right = base64(algorithm, b"{}!").replace('+', "-").replace('/', "_");
        for text in [&*right, right.trim_end_matches('=')] {
            assert!(checked(&of, &[("x-s", text)], b"{}", 0).is_ok(), "{name}");
            assert!(checked(&of, &[("x-s", text)], b"{} ", 0).is_err(), "{name}");
        }
    }
}
