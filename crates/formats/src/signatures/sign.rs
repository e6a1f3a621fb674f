//! Signs deliveries as Standard Webhooks specify. A second signature covers Reseq's own headers.
//!
//! ```text
//! webhook-id          the id of the message
//! webhook-timestamp   when this attempt was signed, in seconds since 1970
//! webhook-signature   v1,<base64> or v1a,<base64>, one for each secret, of <id>.<timestamp>.<body>
//! reseq-signature     signatures in the same form, of the headers below and the body
//! ```
//!
//! `webhook-signature` does not cover the headers that say where a message belongs;
//! `reseq-signature` does. It signs the line `reseq-signature`, then a line `<name>:<value>` for
//! each header of the list that the request has, in this order, then an empty line, then the body.
//! The first line has no full stop, so this text is never one that `webhook-signature` signs.

use base64::{Engine, prelude::BASE64_STANDARD};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use ring::{hmac, signature::Ed25519KeyPair};

use super::{WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP, signed_content};
use crate::delivery_headers::{DELIVERY_HEADERS, RESEQ_SIGNATURE};
use domain::destination::{Sign, StandardSecret};

/// The headers that `reseq-signature` covers, in this order.
fn covered() -> impl Iterator<Item = &'static str> {
    let own = DELIVERY_HEADERS.into_iter().filter(|name| *name != RESEQ_SIGNATURE);
    [WEBHOOK_ID, WEBHOOK_TIMESTAMP].into_iter().chain(own)
}

enum Key {
    Hmac(hmac::Key),
    Ed25519(Ed25519KeyPair),
}

impl Key {
    fn of(secret: &str) -> Option<Key> {
        match StandardSecret::parse(secret).ok()? {
            StandardSecret::Symmetric(bytes) => {
                Some(Key::Hmac(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
            }
            StandardSecret::Private(seed) => {
                Ed25519KeyPair::from_seed_unchecked(&seed).ok().map(Key::Ed25519)
            }
            // A valid definition has no public key here.
            StandardSecret::Public(_) => None,
        }
    }

    fn sign(&self, content: &[u8]) -> String {
        match self {
            Key::Hmac(key) => format!("v1,{}", BASE64_STANDARD.encode(hmac::sign(key, content))),
            Key::Ed25519(pair) => format!("v1a,{}", BASE64_STANDARD.encode(pair.sign(content))),
        }
    }
}

/// Signs the deliveries of one destination.
pub struct Signer {
    keys: Vec<Key>,
    /// The time, in milliseconds since 1970.
    now_ms: fn() -> u64,
}

impl Signer {
    /// A signer with these secrets, all of which were validated.
    pub fn new(sign: &Sign, now_ms: fn() -> u64) -> Signer {
        Signer { keys: sign.secrets.iter().filter_map(Key::of).collect(), now_ms }
    }

    /// Adds the signatures of a request with these headers and this body. `id` must be a header value without
    /// full stops.
    pub fn sign(&self, headers: &mut HeaderMap, id: &str, body: &[u8]) {
        let timestamp = ((self.now_ms)() / 1000).to_string();
        insert(headers, WEBHOOK_ID, id);
        insert(headers, WEBHOOK_TIMESTAMP, &timestamp);
        let signature = self.signatures(&signed_content(id, &timestamp, body));
        insert(headers, WEBHOOK_SIGNATURE, &signature);
        let signature = self.signatures(&covered_content(headers, body));
        insert(headers, RESEQ_SIGNATURE, &signature);
    }

    fn signatures(&self, content: &[u8]) -> String {
        self.keys.iter().map(|key| key.sign(content)).collect::<Vec<_>>().join(" ")
    }
}

/// The text that `reseq-signature` signs.
pub(super) fn covered_content(headers: &HeaderMap, body: &[u8]) -> Vec<u8> {
    let mut content = format!("{RESEQ_SIGNATURE}\n").into_bytes();
    for name in covered() {
        let Some(value) = headers.get(name) else { continue };
        content.extend_from_slice(name.as_bytes());
        content.push(b':');
        content.extend_from_slice(value.as_bytes());
        content.push(b'\n');
    }
    content.push(b'\n');
    content.extend_from_slice(body);
    content
}

fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    // Cannot fail: ids are encoded, and the other values are ASCII.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519, KeyPair, UnparsedPublicKey};

    use super::*;
    use domain::destination::Secrets;

    fn signer(secrets: &[&str]) -> Signer {
        let sign = Sign { secrets: Secrets::new(secrets.to_vec()) };
        Signer::new(&sign, || 1_614_265_330_123)
    }

    /// The example in the specification of Standard Webhooks, and in its libraries.
    #[test]
    fn v1_is_as_in_the_specification() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let mut headers = HeaderMap::new();
        let body = br#"{"test": 2432232314}"#;
        signer(&[secret]).sign(&mut headers, "msg_p5jXN8AQM9LWM0D4loKWxJek", body);
        assert_eq!(headers[WEBHOOK_ID], "msg_p5jXN8AQM9LWM0D4loKWxJek");
        assert_eq!(headers[WEBHOOK_TIMESTAMP], "1614265330");
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(headers[WEBHOOK_SIGNATURE], expected);
    }

    #[test]
    fn each_secret_signs_so_that_a_receiver_may_know_one_of_them() {
        let seed = [9; 32];
        let private = format!("whsk_{}", BASE64_STANDARD.encode(seed));
        let (one, two) = (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            format!("whsec_{}", BASE64_STANDARD.encode([1; 32])),
        );
        let mut headers = HeaderMap::new();
        headers.insert("reseq-sequence", HeaderValue::from_static("42"));
        headers.insert("reseq-key", HeaderValue::from_static("a"));
        signer(&[one, &two, &private]).sign(&mut headers, "m", b"body");
        for (name, content) in [
            (WEBHOOK_SIGNATURE, "m.1614265330.body".to_owned()),
            (
                RESEQ_SIGNATURE,
                "reseq-signature\nwebhook-id:m\nwebhook-timestamp:1614265330\nreseq-key:a\n\
                 reseq-sequence:42\n\nbody"
                    .to_owned(),
            ),
        ] {
            let text = headers[name].to_str().unwrap();
            let [first, second, third] = *text.split(' ').collect::<Vec<_>>() else {
                panic!("{text}")
            };
            assert!(first.starts_with("v1,") && second.starts_with("v1,") && first != second);
            let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
            let key = UnparsedPublicKey::new(&ED25519, pair.public_key().as_ref());
            let signature = BASE64_STANDARD.decode(third.strip_prefix("v1a,").unwrap()).unwrap();
            key.verify(content.as_bytes(), &signature).unwrap();
        }
    }
}
