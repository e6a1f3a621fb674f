//! Fuzzes signatures: secrets, the signatures made with them, and signatures of arriving requests.

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ring::hmac;

use domain::destination::{
    HmacAlgorithm, MASK, Secrets, Sign, SignatureEncoding, StandardSecret, Verify, VerifyKind,
};
use formats::signatures::{Claim, Signer};

const ID: &str = "id";
const NOW_MS: u64 = 1_614_265_330_123;

/// Input: a line for each secret, an empty line, and the body to sign.
pub fn signatures(input: &[u8]) {
    let end = input.windows(2).position(|two| two == b"\n\n").unwrap_or(input.len());
    let (secrets, body) = input.split_at(end);
    let Ok(secrets) = str::from_utf8(secrets) else { return };
    let secrets: Vec<&str> = secrets.lines().collect();
    let valid: Vec<&str> = secrets.iter().copied().filter(|text| can_sign(text)).collect();
    let sign = Sign { secrets: Secrets::new(valid.clone()) };

    let mut headers = HeaderMap::new();
    Signer::new(&sign, || NOW_MS).sign(&mut headers, ID, body);
    let made = headers["webhook-signature"].to_str().unwrap();
    let made: Vec<&str> = made.split_whitespace().collect();
    assert_eq!(made.len(), valid.len());
    let content = [format!("{ID}.{}.", NOW_MS / 1000).as_bytes(), body].concat();
    for (secret, signature) in valid.iter().zip(made) {
        assert!(is_of(signature, secret, &content), "{signature}");
    }

    let mut masked = Secrets::new(vec![MASK; secrets.len()]);
    assert!(masked.unmask(Some(&Secrets::new(secrets.clone()))));
    assert!(masked.iter().eq(secrets.iter().copied()));
}

/// True if the secret can sign. Checks that an error never contains the secret.
fn can_sign(text: &str) -> bool {
    match StandardSecret::parse(text) {
        Ok(StandardSecret::Public(_)) => false,
        Ok(_) => true,
        Err(error) => {
            // A short text may occur in the error by chance.
            let is_secret = text.len() >= 40 && !text.contains(' ');
            assert!(!is_secret || !error.contains(text), "{error}");
            false
        }
    }
}

/// True if the signature is the HMAC of the content. Other tests check the signatures of private keys.
fn is_of(signature: &str, secret: &str, content: &[u8]) -> bool {
    match (signature.strip_prefix("v1,"), StandardSecret::parse(secret)) {
        (Some(text), Ok(StandardSecret::Symmetric(bytes))) => {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
            let bytes = BASE64_STANDARD.decode(text).unwrap();
            hmac::verify(&key, content, &bytes).is_ok()
        }
        (None, Ok(StandardSecret::Private(_))) => signature.starts_with("v1a,"),
        _ => false,
    }
}

/// The secret of all requests: `whsec_` and the base64 of 24 bytes. Other schemes than Standard Webhooks take the
/// whole text.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Input: a byte for the scheme, lines `name:value`, an empty line, and the body of an arriving request.
pub fn verification(input: &[u8]) {
    let Some((scheme, request)) = input.split_first() else { return };
    let end = request.windows(2).position(|two| two == b"\n\n").unwrap_or(request.len());
    let (head, body) = request.split_at(end);
    let body = body.get(2..).unwrap_or_default();
    let mut headers = HeaderMap::new();
    for line in head.split(|byte| *byte == b'\n').take(100) {
        let at = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(at);
        let value = HeaderValue::from_bytes(value.get(1..).unwrap_or_default());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), value) {
            headers.append(name, value);
        }
    }
    let verify = verify_of(*scheme);
    let Ok(claim) = Claim::read(&verify, &headers, NOW_MS) else { return };
    if claim.check(&verify, body).is_err() {
        return;
    }
    // A valid signature must fail for another body, and for another secret.
    let mut other = body.to_vec();
    match other.first_mut() {
        Some(first) => *first ^= 1,
        None => other.push(0),
    }
    assert!(claim.check(&verify, &other).is_err());
    let secrets = Secrets::new(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx"]);
    assert!(claim.check(&Verify { secrets, ..verify }, body).is_err());
}

fn verify_of(scheme: u8) -> Verify {
    let kind = match scheme % 4 {
        0 => VerifyKind::StandardWebhooks,
        1 => VerifyKind::Stripe,
        2 => VerifyKind::Github,
        _ => VerifyKind::Hmac,
    };
    let is_hmac = kind == VerifyKind::Hmac;
    let text = |text: &str| is_hmac.then(|| text.to_owned());
    Verify {
        kind,
        secrets: Secrets::new([SECRET]),
        tolerance_ms: None,
        header: text("x-signature"),
        algorithm: is_hmac.then_some(HmacAlgorithm::Sha512),
        encoding: is_hmac.then_some(SignatureEncoding::Base64Url),
        prefix: text("v0="),
        timestamp_header: text("x-timestamp"),
        id_header: text("x-id"),
        signed: text("v0:{timestamp}:{id}:{body}"),
    }
}
