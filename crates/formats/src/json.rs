//! JSON of message parts, for all code that shows whole messages: workers, batches, the API.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

pub use domain::message::joined_headers;

/// The most levels of JSON around a body in answers, batches and envelopes.
pub const AROUND: usize = 4;

/// Reads an optional field in which `null` counts as a value, not as absent.
pub fn even_null<'a, D: Deserializer<'a>, T: Deserialize<'a>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// True if the content type is JSON.
fn is_called_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    media_type == "application/json" || media_type.ends_with("+json")
}

/// True if the content type is JSON but the body is not.
pub fn is_broken_json(content_type: &str, bytes: &[u8]) -> bool {
    is_called_json(content_type) && serde_json::from_slice::<&RawValue>(bytes).is_err()
}

/// The body as its original JSON text. `None` if the body is not JSON, has another content type,
/// or is not [`embeddable`]; then send it as bytes.
pub fn json_body(content_type: &str, bytes: &[u8], depth_max: usize) -> Option<Box<RawValue>> {
    if !is_called_json(content_type) {
        return None;
    }
    embeddable(std::str::from_utf8(bytes).ok()?, depth_max)
}

/// This JSON, for embedding in JSON with several messages. `None` if some parsers would refuse
/// the whole document: because it nests deeper than `depth_max`, has a number beyond a double, or
/// an escape for half of a surrogate pair.
pub fn embeddable(text: &str, depth_max: usize) -> Option<Box<RawValue>> {
    let json = RawValue::from_string(text.to_owned()).ok()?;
    let bytes = json.get().as_bytes();
    let is_fit = !is_deeper(bytes, depth_max.saturating_sub(AROUND)) && is_read_everywhere(bytes);
    is_fit.then_some(json)
}

/// True if this JSON nests deeper than this many levels.
pub fn is_deeper(json: &[u8], levels: usize) -> bool {
    // A level takes at least two bytes.
    if json.len() / 2 <= levels {
        return false;
    }
    let (mut at, mut depth) = (0, 0_usize);
    while at < json.len() {
        match json[at] {
            b'"' => at = end_of_string(json, at),
            b'[' | b'{' => {
                depth += 1;
                if depth > levels {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    false
}

/// The index of the quote that closes the string which begins at `at`.
fn end_of_string(json: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while at < json.len() && json[at] != b'"' {
        at += if json[at] == b'\\' { 2 } else { 1 };
    }
    at
}

/// False if this JSON has a number or escape that some parsers refuse.
fn is_read_everywhere(json: &[u8]) -> bool {
    let mut at = 0;
    while at < json.len() {
        match json[at] {
            b'"' => {
                let end = end_of_string(json, at);
                if has_half_a_pair(&json[at..end.min(json.len())]) {
                    return false;
                }
                at = end + 1;
            }
            b'-' | b'0'..=b'9' => {
                let rest = &json[at..];
                let is_inside = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                let end = rest.iter().position(|byte| !is_inside(byte)).unwrap_or(rest.len());
                if is_huge(&rest[..end]) {
                    return false;
                }
                at += end;
            }
            _ => at += 1,
        }
    }
    true
}

/// True if the number is beyond the range of a double.
fn is_huge(number: &[u8]) -> bool {
    let may_be = number.len() > f64::MAX_10_EXP as usize || number.contains(&b'e');
    if !may_be && !number.contains(&b'E') {
        return false;
    }
    let number = std::str::from_utf8(number).ok().and_then(|text| text.parse::<f64>().ok());
    number.is_none_or(f64::is_infinite)
}

/// True if a string has an escape `\uD800` to `\uDFFF` that is not part of a pair.
fn has_half_a_pair(string: &[u8]) -> bool {
    let unit_at = |at: usize| {
        let digits = string.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut at = 0;
    while let Some(found) = string[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        at += match unit_at(at) {
            Some(0xD800..=0xDBFF) => match unit_at(at + 6) {
                Some(0xDC00..=0xDFFF) => 12,
                _ => return true,
            },
            Some(0xDC00..=0xDFFF) => return true,
            Some(_) => 6,
            None => 2,
        };
        at = at.min(string.len());
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_json_if_it_is_called_so_and_is_so() {
        let text = |content_type, bytes: &[u8]| {
            json_body(content_type, bytes, 128).map(|json| json.get().to_owned())
        };
        assert_eq!(text("application/json; charset=utf-8", b"{\"a\": 1}").unwrap(), "{\"a\": 1}");
        assert!(text("application/problem+json", b"[]").is_some());
        for (content_type, bytes) in
            [("text/plain", &b"1"[..]), ("application/json", b"{"), ("application/json", b"\xff")]
        {
            assert_eq!(text(content_type, bytes), None, "{content_type}");
        }
    }

    #[test]
    fn what_a_parser_may_refuse_is_not_embedded() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        let (fits, deep) = (nested(124), nested(125));
        let strings = format!("[{}]", r#""[[[[\"[[[[{{{{","#.repeat(60) + "1");
        let digits = "9".repeat(400);
        for (text, fits) in [
            (fits.as_str(), true),
            (&deep, false),
            (&strings, true),
            ("[1.5e308, -2E-999, 0, 123456789012345678901234567890]", true),
            ("[1, 1e309]", false),
            ("-1E999", false),
            (&digits, false),
            (r#"{"\ud83d\ude00": "\\ud800 \" \u00e9"}"#, true),
            (r#"["\ud800"]"#, false),
            (r#"["\udc00\ud800"]"#, false),
            (r#"["\uD83D\n"]"#, false),
            (r#"{"a": 1, "a": 2}"#, true),
            ("[1", false),
            ("1\n2", false),
        ] {
            let shown = &text[..text.len().min(60)];
            assert_eq!(embeddable(text, 128).is_some(), fits, "{shown}");
            // Rust's own parser is one of the strict ones.
            let whole = format!(r#"{{"leases": [{{"body": {text}}}]}}"#);
            if fits {
                serde_json::from_str::<serde_json::Value>(&whole).expect(shown);
            }
        }
        assert!(is_deeper(deep.as_bytes(), 124) && !is_deeper(deep.as_bytes(), 125));
        let object = r#"{"a":"#.repeat(129) + "1" + &"}".repeat(129);
        assert!(is_deeper(object.as_bytes(), 128) && !is_deeper(object.as_bytes(), 129));
        // The deepest possible body does not overflow the stack: nothing recurses.
        assert!(embeddable(&nested(500_000), 128).is_none());
    }
}
