//! The headers of a request that describe its message, raw or JSON. An unknown header that looks
//! like one of these, such as `Reseq-Kye`, is refused rather than ignored.

use axum::http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;

use super::due;
use crate::{
    domain::message::{ID_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX, KEY_BYTES_MAX, check_text},
    wire::http::DELIVERY_HEADERS,
};

pub(super) const ID: &str = "Reseq-Id";
pub(super) const KEY: &str = "Reseq-Key";
pub(super) const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
pub(super) const DELAY: &str = "Reseq-Delay";
pub(super) const NOT_BEFORE: &str = "Reseq-Not-Before";
pub(super) const PRIORITY: &str = "Reseq-Priority";
/// Each header, and the JSON field with the same meaning.
const NAMES: [(&str, &str); 6] = [
    (ID, "id"),
    (KEY, "key"),
    (IDEMPOTENCY_KEY, "idempotency_key"),
    (DELAY, "delay_ms"),
    (NOT_BEFORE, "not_before"),
    (PRIORITY, "priority"),
];
/// The longest value of the last three, in bytes.
const TEXT_BYTES_MAX: usize = 64;
/// A name within this edit distance of a known one counts as a typing mistake.
const SLIPS_MAX: usize = 2;

/// The values of the headers.
#[derive(Debug, Default)]
pub(super) struct MessageHeaders {
    pub(super) id: Option<String>,
    pub(super) key: Option<String>,
    pub(super) idempotency_key: Option<String>,
    pub(super) delay_ms: Option<u64>,
    pub(super) not_before: Option<String>,
    pub(super) priority: Option<u8>,
}

impl MessageHeaders {
    /// Parses the headers; the error names the wrong one.
    pub(super) fn read(headers: &HeaderMap) -> Result<MessageHeaders, String> {
        check_names(headers)?;
        let delay_ms = match plain(headers, DELAY, TEXT_BYTES_MAX)? {
            Some(text) => {
                let delay_ms = due::parse_delay(text).map_err(|error| format!("{DELAY}: {error}"));
                Some(delay_ms?)
            }
            None => None,
        };
        let not_before = plain(headers, NOT_BEFORE, TEXT_BYTES_MAX)?.map(str::to_owned);
        if delay_ms.is_some() && not_before.is_some() {
            return Err(format!("{NOT_BEFORE}: give either it or {DELAY}, not both"));
        }
        Ok(MessageHeaders {
            id: encoded(headers, ID, ID_BYTES_MAX)?,
            key: encoded(headers, KEY, KEY_BYTES_MAX)?,
            idempotency_key: plain(headers, IDEMPOTENCY_KEY, IDEMPOTENCY_KEY_BYTES_MAX)?
                .map(str::to_owned),
            delay_ms,
            not_before,
            priority: priority_of(headers)?,
        })
    }

    /// Refuses headers that describe one message, in a request with many.
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

/// Refuses unknown names that resemble those of Reseq.
fn check_names(headers: &HeaderMap) -> Result<(), String> {
    for name in headers.keys() {
        let text = name.as_str();
        let is_known = NAMES.iter().any(|(known, _)| text.eq_ignore_ascii_case(known));
        if is_known {
            check_given_once(headers, name)?;
            continue;
        }
        // Allow the headers of a delivery: one Reseq may deliver to another.
        if DELIVERY_HEADERS.contains(&text) || !matches!(text.as_bytes(), [b'r' | b'i', ..]) {
            continue;
        }
        let by_slips = NAMES.iter().map(|(known, _)| {
            let lower = known.to_ascii_lowercase();
            // A prefix, such as `Reseq-Prio`, is the best match.
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

/// The value of a header, checked.
fn plain<'h>(headers: &'h HeaderMap, name: &str, max: usize) -> Result<Option<&'h str>, String> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| format!("{name}: not UTF-8"))?;
    check_text(name, text, max)?;
    Ok(Some(text))
}

/// The value of a header, percent-decoded (deliveries encode it the same way).
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
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let parse = |(name, value): &(&str, &str)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap())
        };
        pairs.iter().map(parse).collect()
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
            ("Reseq-NotBefore", NOT_BEFORE),
            ("Reseq-Prio", PRIORITY),
        ] {
            let error = MessageHeaders::read(&headers(&[(name, "1s")])).unwrap_err();
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
            let said = MessageHeaders::read(&headers(&[(name, "1")])).unwrap();
            assert!(said.id.is_none() && said.key.is_none(), "{name}");
            assert_eq!(MessageHeaders::nothing(&headers(&[(name, "1")])), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_header_given_twice_must_say_the_same() {
        let twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "a")];
        assert_eq!(
            MessageHeaders::read(&headers(&twice)).unwrap().idempotency_key.as_deref(),
            Some("a")
        );
        let two = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")];
        assert!(MessageHeaders::read(&headers(&two)).unwrap_err().contains("given twice"));
    }
}
