//! The format of each kind of signature.

use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE},
};
use http::HeaderMap;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{Claim, SignatureError, Tag, covered_content, signed_content};
use crate::{
    delivery_headers::RESEQ_SIGNATURE,
    signatures::{WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP},
};
use domain::{
    destination::{SignatureEncoding, SignedPart, Verify},
    message::{IDEMPOTENCY_KEY_BYTES_MAX, check_text},
};

/// The most signatures of one request: the most secrets that a destination may have.
const SIGNATURES_MAX: usize = 10;
/// The most digits of a time. A longer number is after this millennium.
const TIME_DIGITS_MAX: usize = 13;
/// Times of at least this number are in milliseconds: as seconds, they would be after the year 5000.
const MILLISECONDS_FROM: u64 = 100_000_000_000;

type Read<T> = Result<T, SignatureError>;

fn invalid<T>(problem: impl Into<String>) -> Read<T> {
    Err(SignatureError::Invalid(problem.into()))
}

pub(super) fn standard_webhooks(verify: &Verify, headers: &HeaderMap, now_ms: u64) -> Read<Claim> {
    let tags = standard_tags(WEBHOOK_SIGNATURE, signature_of(headers, WEBHOOK_SIGNATURE)?)?;
    let id = id_of(headers, WEBHOOK_ID)?;
    if id.contains('.') {
        // With a full stop in the id, the signed text could be split into id, time and body in another way.
        return invalid(format!("{WEBHOOK_ID}: must not contain a full stop"));
    }
    let timestamp = required(headers, WEBHOOK_TIMESTAMP)?;
    check_time(WEBHOOK_TIMESTAMP, seconds(WEBHOOK_TIMESTAMP, timestamp)?, verify, now_ms)?;
    let own = match one(headers, RESEQ_SIGNATURE)? {
        None => None,
        Some(text) => Some((covered_content(headers, b""), standard_tags(RESEQ_SIGNATURE, text)?)),
    };
    Ok(Claim {
        before: signed_content(id, timestamp, b""),
        after: Vec::new(),
        tags,
        id: Some(id.to_owned()),
        timestamp: Some(timestamp.to_owned()),
        own,
    })
}

pub(super) fn stripe(verify: &Verify, headers: &HeaderMap, now_ms: u64) -> Read<Claim> {
    let name = verify.signature_header();
    let text = signature_of(headers, name)?;
    let (mut time, mut tags) = (None, Vec::new());
    for element in text.split(',') {
        let Some((key, value)) = element.trim().split_once('=') else {
            return invalid(format!("{name}: must have the form t=<time>,v1=<signature>"));
        };
        match key {
            "t" if time.is_some_and(|known| known != value) => {
                return invalid(format!("{name}: has two times"));
            }
            "t" => time = Some(value),
            "v1" => tags.push(Tag::Hmac(decoded(name, value, SignatureEncoding::Hex)?)),
            // Ignores other schemes, such as `v0` of test events.
            _ => {}
        }
    }
    check_count(name, tags.len())?;
    let Some(time) = time else { return invalid(format!("{name}: has no time (t=…)")) };
    check_time(name, seconds(name, time)?, verify, now_ms)?;
    Ok(Claim {
        before: [time.as_bytes(), b"."].concat(),
        after: Vec::new(),
        tags,
        id: None,
        timestamp: Some(time.to_owned()),
        own: None,
    })
}

pub(super) fn github(headers: &HeaderMap) -> Read<Claim> {
    let name = "x-hub-signature-256";
    let text = signature_of(headers, name)?;
    let Some(digits) = text.strip_prefix("sha256=") else {
        return invalid(format!("{name}: must begin with sha256="));
    };
    let tags = vec![Tag::Hmac(decoded(name, digits, SignatureEncoding::Hex)?)];
    Ok(Claim { before: Vec::new(), after: Vec::new(), tags, id: None, timestamp: None, own: None })
}

pub(super) fn hmac(verify: &Verify, headers: &HeaderMap, now_ms: u64) -> Read<Claim> {
    let name = verify.signature_header();
    let text = signature_of(headers, name)?;
    let prefix = verify.prefix.as_deref().unwrap_or_default();
    let Some(text) = text.strip_prefix(prefix) else {
        return invalid(format!("{name}: must begin with {prefix}"));
    };
    let tags = vec![Tag::Hmac(decoded(name, text, verify.encoding.unwrap_or_default())?)];
    // Cannot fail: definitions are validated before they are stored.
    let parts = verify.signed_parts().map_err(SignatureError::Invalid)?;
    // Anyone could change an id that is not signed, so ignore it.
    let id = verify.id_header.as_deref().filter(|_| parts.contains(&SignedPart::Id));
    let id = id.map(|name| separated(name, id_of(headers, name)?, &parts)).transpose()?;
    let mut timestamp = None;
    if let Some(name) = verify.timestamp_header.as_deref() {
        let text = required(headers, name)?;
        check_time(name, any_time(name, text)?, verify, now_ms)?;
        timestamp = Some(text);
    }
    let (mut before, mut after, mut is_after) = (Vec::new(), Vec::new(), false);
    for part in parts {
        let text = match part {
            SignedPart::Text(text) => text,
            SignedPart::Timestamp => timestamp.unwrap_or_default(),
            SignedPart::Id => id.unwrap_or_default(),
            SignedPart::Body => {
                is_after = true;
                continue;
            }
        };
        let around = if is_after { &mut after } else { &mut before };
        around.extend_from_slice(text.as_bytes());
    }
    let (id, timestamp) = (id.map(str::to_owned), timestamp.map(str::to_owned));
    Ok(Claim { before, after, tags, id, timestamp, own: None })
}

/// The signatures of Standard Webhooks. Ignores versions other than `v1` and `v1a`.
fn standard_tags(name: &str, text: &str) -> Read<Vec<Tag>> {
    let mut tags = Vec::new();
    for signature in text.split_ascii_whitespace() {
        let Some((version, encoded)) = signature.split_once(',') else {
            return invalid(format!("{name}: must have the form v1,<base64>"));
        };
        let decoded = || decoded(name, encoded, SignatureEncoding::Base64);
        match version {
            "v1" => tags.push(Tag::Hmac(decoded()?)),
            "v1a" => tags.push(Tag::Ed25519(decoded()?)),
            _ => {}
        }
    }
    check_count(name, tags.len())?;
    Ok(tags)
}

fn check_count(name: &str, count: usize) -> Read<()> {
    match count {
        0 => invalid(format!("{name}: has no signature of a version that Reseq knows")),
        1..=SIGNATURES_MAX => Ok(()),
        _ => invalid(format!("{name}: has more than {SIGNATURES_MAX} signatures")),
    }
}

/// The header with the signature.
fn signature_of<'h>(headers: &'h HeaderMap, name: &str) -> Read<&'h str> {
    one(headers, name)?.ok_or_else(|| SignatureError::Missing(name.to_owned()))
}

fn required<'h>(headers: &'h HeaderMap, name: &str) -> Read<&'h str> {
    match one(headers, name)? {
        Some(text) => Ok(text),
        None => invalid(format!("{name}: is missing")),
    }
}

/// The header with the id, which becomes the idempotency key.
fn id_of<'h>(headers: &'h HeaderMap, name: &str) -> Read<&'h str> {
    let id = required(headers, name)?;
    check_text(name, id, IDEMPOTENCY_KEY_BYTES_MAX).map_err(SignatureError::Invalid)?;
    Ok(id)
}

/// The id, if the signed text can be split into id, time and body in only one way.
fn separated<'h>(name: &str, id: &'h str, parts: &[SignedPart<'_>]) -> Read<&'h str> {
    let is_unclear = parts.windows(2).any(|pair| match pair {
        [SignedPart::Text(text), SignedPart::Id] => format!("{text}{id}").rfind(text) != Some(0),
        [SignedPart::Id, SignedPart::Text(text)] => {
            format!("{id}{text}").find(text) != Some(id.len())
        }
        _ => false,
    });
    if is_unclear {
        return invalid(format!(
            "{name}: must not contain the text beside {{id}} in verify.signed"
        ));
    }
    Ok(id)
}

/// The value of a header. Two values are refused, because it is unclear which of them counts.
fn one<'h>(headers: &'h HeaderMap, name: &str) -> Read<Option<&'h str>> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return invalid(format!("{name}: is there twice"));
    }
    match first.to_str() {
        Ok(text) => Ok(Some(text)),
        Err(_) => invalid(format!("{name}: is not ASCII text")),
    }
}

fn decoded(name: &str, text: &str, encoding: SignatureEncoding) -> Read<Vec<u8>> {
    let (bytes, what) = match encoding {
        SignatureEncoding::Hex => (bytes_of_hex(text), "hexadecimal digits"),
        SignatureEncoding::Base64 => (BASE64_STANDARD.decode(text).ok(), "base64"),
        SignatureEncoding::Base64Url => {
            // Many senders leave the padding out.
            let padded = format!("{text}{}", "=".repeat(text.len().wrapping_neg() % 4));
            (BASE64_URL_SAFE.decode(padded).ok(), "base64 for URLs")
        }
    };
    match bytes.filter(|bytes| !bytes.is_empty()) {
        Some(bytes) => Ok(bytes),
        None => invalid(format!("{name}: the signature is not {what}")),
    }
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok()))
        .collect();
    let pairs = digits?;
    let is_even = pairs.len().is_multiple_of(2);
    is_even.then(|| pairs.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Converts a time in seconds to milliseconds.
fn seconds(name: &str, text: &str) -> Read<u64> {
    digits(text).map(|seconds| seconds.saturating_mul(1000)).map_or_else(
        || invalid(format!("{name}: the time must be the seconds since 1970, as digits")),
        Ok,
    )
}

/// Converts a time in seconds, in milliseconds or as in RFC 3339 to milliseconds.
fn any_time(name: &str, text: &str) -> Read<u64> {
    if let Some(number) = digits(text) {
        let is_ms = number >= MILLISECONDS_FROM;
        return Ok(if is_ms { number } else { number * 1000 });
    }
    let parsed = OffsetDateTime::parse(text, &Rfc3339).ok();
    let ms = parsed.and_then(|time| u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok());
    match ms {
        Some(ms) => Ok(ms),
        None => invalid(format!(
            "{name}: must be the seconds or milliseconds since 1970, or a time as in RFC 3339"
        )),
    }
}

fn digits(text: &str) -> Option<u64> {
    let is_number = (1..=TIME_DIGITS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn check_time(name: &str, at_ms: u64, verify: &Verify, now_ms: u64) -> Read<()> {
    let tolerance_ms = verify.tolerance_ms();
    if now_ms.abs_diff(at_ms) <= tolerance_ms {
        return Ok(());
    }
    let away = now_ms.abs_diff(at_ms).div_ceil(1000);
    let side = if at_ms < now_ms { "ago" } else { "ahead" };
    Err(SignatureError::OutsideTolerance(format!(
        "{name}: the time of the signature is {away} s {side}; verify.tolerance_ms allows {tolerance_ms} ms"
    )))
}
