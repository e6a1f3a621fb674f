//! The request headers that describe a message, for raw requests and for JSON. Refuses unknown headers that look like
//! one of these, such as `Reseq-Kye`.

use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;
use utoipa::IntoParams;

use super::{
    due, options,
    source::{self, SourceFields},
};
use domain::{
    ProcessingOptions,
    message::{ID_BYTES_MAX, KEY_BYTES_MAX, check_text},
};
use formats::delivery_headers::DELIVERY_HEADERS;
use http_server::idempotency_key::{self, idempotency_key};

pub(super) const ID: &str = "Reseq-Id";
pub(super) const IDEMPOTENCY_KEY: &str = idempotency_key::NAME;
pub(super) const KEY: &str = "Reseq-Key";
pub(super) const DELAY: &str = "Reseq-Delay";
pub(super) const DUE_AT: &str = "Reseq-Due-At";
pub(super) const PRIORITY: &str = "Reseq-Priority";
pub(super) const KEEP_RESULT: &str = "Reseq-Keep-Result";
pub(super) const ATTEMPTS_MAX: &str = "Reseq-Attempts-Max";
pub(super) const BACKOFF: &str = "Reseq-Backoff";
pub(super) const SOURCE: &str = "Reseq-Source";
/// Each header, and the JSON field with the same meaning.
const NAMES: [(&str, &str); 10] = [
    (ID, "id"),
    (KEY, "key"),
    (IDEMPOTENCY_KEY, "idempotency_key"),
    (DELAY, "delay_ms"),
    (DUE_AT, "due_at"),
    (PRIORITY, "priority"),
    (KEEP_RESULT, "keep_result"),
    (ATTEMPTS_MAX, "attempts_max"),
    (BACKOFF, "backoff_ms"),
    (SOURCE, "source"),
];
/// The longest value of a header, in bytes, except for the first three headers and the last.
const TEXT_BYTES_MAX: usize = 64;
/// The longest value of the last header, in bytes.
const SOURCE_BYTES_MAX: usize = 1024;
/// A name within this edit distance of a known one counts as a typing mistake.
const SLIPS_MAX: usize = 2;

/// The headers that describe one message.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct SendHeaders {
    /// The idempotency key, with or without quotes. A repeated message with the same key is not stored again.
    #[param(rename = "Idempotency-Key")]
    idempotency_key: Option<String>,
    /// The ordering key, percent-encoded.
    #[param(rename = "Reseq-Key")]
    key: Option<String>,
    /// The id of the message, percent-encoded; a new UUID if absent.
    #[param(rename = "Reseq-Id")]
    id: Option<String>,
    /// Reseq processes the message only after this time has passed, such as `15s`.
    #[param(rename = "Reseq-Delay")]
    delay: Option<String>,
    /// Reseq processes the message only after this instant (RFC 3339).
    #[param(rename = "Reseq-Due-At")]
    due_at: Option<String>,
    /// The priority, 0 to 9: 9 goes first.
    #[param(rename = "Reseq-Priority", minimum = 0, maximum = 9)]
    priority: Option<u8>,
    /// `true`: keep the output for 60 s, so that the result can be read.
    #[param(rename = "Reseq-Keep-Result")]
    keep_result: Option<String>,
    /// The most attempts to process the message, such as `3`; not more than the destination allows.
    #[param(rename = "Reseq-Attempts-Max")]
    attempts_max: Option<String>,
    /// The longest wait after the first failed attempt, such as `15s`.
    #[param(rename = "Reseq-Backoff")]
    backoff: Option<String>,
    /// The source of the message: `name="orders/3", position="0012", after="0011"`.
    #[param(rename = "Reseq-Source")]
    source: Option<String>,
}

/// The values of the headers.
#[derive(Debug, Default)]
pub(super) struct MessageHeaders {
    pub(super) id: Option<String>,
    pub(super) key: Option<String>,
    pub(super) idempotency_key: Option<String>,
    pub(super) delay_ms: Option<u64>,
    pub(super) due_at: Option<String>,
    pub(super) priority: Option<u8>,
    pub(super) keep_result: Option<bool>,
    pub(super) attempts_max: Option<u64>,
    pub(super) backoff_ms: Option<u64>,
    pub(super) source: Option<SourceFields>,
}

impl MessageHeaders {
    /// Parses the headers. An error names the wrong header.
    pub(super) fn read(headers: &HeaderMap, now_ms: u64) -> Result<MessageHeaders, String> {
        check_names(headers)?;
        let of_delay = |error| format!("{DELAY}: {error}");
        let delay_ms = plain(headers, DELAY, TEXT_BYTES_MAX)?.map(due::parse_delay);
        let delay_ms = delay_ms.transpose().map_err(of_delay)?;
        due::after(delay_ms.unwrap_or_default()).map_err(of_delay)?;
        let due_at = plain(headers, DUE_AT, TEXT_BYTES_MAX)?;
        due_at
            .map_or(Ok(None), |time| due::at(time, now_ms))
            .map_err(|error| format!("{DUE_AT}: {error}"))?;
        if delay_ms.is_some() && due_at.is_some() {
            return Err(format!("{DUE_AT}: give either it or {DELAY}, not both"));
        }
        Ok(MessageHeaders {
            id: encoded(headers, ID, ID_BYTES_MAX)?,
            key: encoded(headers, KEY, KEY_BYTES_MAX)?,
            idempotency_key: idempotency_key(headers)?,
            delay_ms,
            due_at: due_at.map(str::to_owned),
            priority: priority_of(headers)?,
            keep_result: parsed(headers, KEEP_RESULT, "it is true or false")?,
            attempts_max: parsed(headers, ATTEMPTS_MAX, options::ATTEMPTS_FORM)?,
            backoff_ms: plain(headers, BACKOFF, TEXT_BYTES_MAX)?
                .map(due::parse_delay)
                .transpose()
                .map_err(|error| format!("{BACKOFF}: {error}"))?,
            source: plain(headers, SOURCE, SOURCE_BYTES_MAX)?
                .map(|text| {
                    source::parse_header(text).ok_or_else(|| format!("{SOURCE}: {}", source::FORM))
                })
                .transpose()?,
        })
    }

    /// The options of processing that the headers set.
    pub(super) fn options(&self) -> Result<ProcessingOptions, String> {
        let MessageHeaders { keep_result, attempts_max, backoff_ms, .. } = *self;
        options::check((keep_result, attempts_max, backoff_ms), [ATTEMPTS_MAX, BACKOFF])
    }

    /// Refuses a batch whose request has headers for a single message.
    pub(super) fn nothing(headers: &HeaderMap) -> Result<(), String> {
        check_names(headers)?;
        match NAMES.iter().find(|(name, _)| headers.contains_key(*name)) {
            None => Ok(()),
            Some((name, field)) => Err(format!(
                "{name}: a batch has many messages; put \"{field}\" into each line instead"
            )),
        }
    }
}

/// Refuses a signed request with headers that describe its message and are not signed. A delivery of another Reseq
/// signs the first two headers. `Idempotency-Key` has no effect: the signed parts give the key.
pub(super) fn check_covered(headers: &HeaderMap, covers_delivery: bool) -> Result<(), String> {
    let is_covered = |name: &str| match name {
        ID | KEY => covers_delivery,
        IDEMPOTENCY_KEY => true,
        _ => false,
    };
    let not_covered =
        NAMES.iter().find(|(name, _)| headers.contains_key(*name) && !is_covered(name));
    match not_covered {
        None => Ok(()),
        Some((name, _)) => Err(format!(
            "{name}: the signature does not cover it, so anybody could have set it; leave it out, or send a token"
        )),
    }
}

/// Refuses unknown header names that resemble the names of Reseq.
fn check_names(headers: &HeaderMap) -> Result<(), String> {
    for name in headers.keys() {
        let text = name.as_str();
        let is_known = NAMES.iter().any(|(known, _)| text.eq_ignore_ascii_case(known));
        if is_known {
            check_given_once(headers, name)?;
            continue;
        }
        // Allows the headers of a delivery, because one Reseq may deliver to another.
        if DELIVERY_HEADERS.contains(&text) || !matches!(text.as_bytes(), [b'r' | b'i', ..]) {
            continue;
        }
        let by_slips = NAMES.iter().map(|(known, _)| {
            let lower = known.to_ascii_lowercase();
            // A known name that begins with this text, such as `Reseq-Prio`, is the best match.
            (!lower.starts_with(text), strsim::damerau_levenshtein(text, &lower), *known)
        });
        let Some((_, slips, nearest)) = by_slips.min() else { continue };
        if text.starts_with("reseq") || slips <= SLIPS_MAX {
            return Err(format!("{text}: there is no such header; did you mean {nearest}?"));
        }
    }
    Ok(())
}

fn check_given_once(headers: &HeaderMap, name: &HeaderName) -> Result<(), String> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.all(|value| Some(value) == first) {
        true => Ok(()),
        false => Err(format!("{name}: is given twice, with different values")),
    }
}

fn priority_of(headers: &HeaderMap) -> Result<Option<u8>, String> {
    let Some(text) = plain(headers, PRIORITY, TEXT_BYTES_MAX)? else { return Ok(None) };
    let priority = text.parse().map_err(|_| due::PRIORITY_FORM.to_owned());
    let priority = priority.and_then(due::check_priority);
    priority.map(Some).map_err(|error| format!("{PRIORITY}: {error}"))
}

/// Parses the value of a header as this type.
fn parsed<T: FromStr>(headers: &HeaderMap, name: &str, form: &str) -> Result<Option<T>, String> {
    let text = plain(headers, name, TEXT_BYTES_MAX)?;
    text.map(|text| text.parse().map_err(|_| format!("{name}: {form}"))).transpose()
}

/// The value of a header, after checks.
fn plain<'h>(headers: &'h HeaderMap, name: &str, max: usize) -> Result<Option<&'h str>, String> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| format!("{name}: not UTF-8"))?;
    check_text(name, text, max)?;
    Ok(Some(text))
}

/// The value of a header, percent-decoded. Deliveries encode it in the same way.
fn encoded(headers: &HeaderMap, name: &str, max: usize) -> Result<Option<String>, String> {
    let Some(text) = plain(headers, name, 3 * max)? else { return Ok(None) };
    let decoded = percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| format!("{name}: percent-encodes what is not UTF-8"))?;
    check_text(name, &decoded, max)?;
    Ok(Some(decoded.into_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let parse = |(name, value): &(&str, &str)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap())
        };
        pairs.iter().map(parse).collect()
    }

    fn read(pairs: &[(&str, &str)]) -> Result<MessageHeaders, String> {
        MessageHeaders::read(&headers(pairs), 0)
    }

    #[test]
    fn documented_headers_are_those_that_are_read() {
        let documented = SendHeaders::into_params(|| None);
        let documented: BTreeSet<String> =
            documented.into_iter().map(|header| header.name).collect();
        assert_eq!(documented, NAMES.map(|(name, _)| name.to_owned()).into());
    }

    #[test]
    fn a_slip_in_a_name_is_told_with_the_right_one() {
        for (name, right) in [
            ("Reseq-Kye", KEY),
            ("Reseq-Keys", KEY),
            ("ReseqKey", KEY),
            ("Resq-Key", KEY),
            ("Reseq_Id", ID),
            ("Reseq-Ordering-Key", KEY),
            ("Reseq-Idempotency-Key", IDEMPOTENCY_KEY),
            ("Idempotence-Key", IDEMPOTENCY_KEY),
            ("Idempotency_Key", IDEMPOTENCY_KEY),
            ("Idempotency-Kye", IDEMPOTENCY_KEY),
            ("Reseq-Dealy", DELAY),
            ("Reseq-DueAt", DUE_AT),
            ("Reseq-Prio", PRIORITY),
        ] {
            let error = read(&[(name, "1s")]).unwrap_err();
            assert!(error.starts_with(&name.to_ascii_lowercase()), "{error}");
            assert!(error.contains("did you mean"), "{error}");
            if name != "Reseq-Ordering-Key" {
                assert!(error.contains(right), "{error}");
            }
            assert!(MessageHeaders::nothing(&headers(&[(name, "1s")])).is_err());
        }
    }

    #[test]
    fn other_headers_and_those_of_a_delivery_are_no_slips() {
        let mut names = vec!["Referer", "Range", "If-Match", "X-Reseq-Kye", "Host", "Retry-After"];
        names.extend(
            DELIVERY_HEADERS.iter().filter(|name| !["reseq-id", "reseq-key"].contains(name)),
        );
        for name in names {
            let said = read(&[(name, "1")]).unwrap();
            assert!(said.id.is_none() && said.key.is_none(), "{name}");
            assert_eq!(MessageHeaders::nothing(&headers(&[(name, "1")])), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_header_given_twice_must_say_the_same() {
        let twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "a")];
        assert_eq!(read(&twice).unwrap().idempotency_key.as_deref(), Some("a"));
        let two = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")];
        assert!(read(&two).unwrap_err().contains("given twice"));
    }
}
