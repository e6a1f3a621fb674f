//! Names the invalid parts of a request: the members of `errors` in a problem.
//!
//! The text of each such problem begins with the name of the part and a colon, such as `delivery.url:
//! names no host`. [`InvalidPart::of`] reads the part from the text, so that the two cannot differ.

use serde::Serialize;
use utoipa::ToSchema;

/// One invalid part of a request, and what is wrong with it. Has one of `pointer`, `parameter` and
/// `header`; none of them if no single parameter or header is to blame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct InvalidPart {
    /// The part of the body, as a JSON Pointer in a URI fragment (RFC 6901, section 6).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The parameter of the query or of the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// The header of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// What is wrong.
    pub detail: String,
}

/// The location of a part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// In the body.
    Body,
    /// In the query, or in the path.
    Parameter,
    /// Among the headers.
    Header,
}

/// The path of the headers of a message. The names of headers may contain dots.
const HEADERS: &str = "headers.";

impl InvalidPart {
    /// The part that `text` begins with. If `text` names no part: the whole body.
    pub fn of(location: Location, text: &str) -> InvalidPart {
        let (name, detail) = match text.split_once(": ") {
            Some((name, detail)) if is_name(name) => (name, detail),
            _ => ("", text),
        };
        let detail = detail.to_owned();
        let (mut pointer, mut parameter, mut header) = (None, None, None);
        let named = (!name.is_empty()).then(|| name.to_owned());
        match location {
            Location::Body => pointer = Some(pointer_to(name)),
            Location::Parameter => parameter = named,
            Location::Header => header = named,
        }
        InvalidPart { pointer, parameter, header, detail }
    }
}

/// True for `delivery.url`, `items[3].token`, `Reseq-Key`: one word.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.[]!#$%&'*+^`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

/// `items[3].token` as `#/items/3/token`.
fn pointer_to(path: &str) -> String {
    let escaped = |segment: &str| segment.replace('~', "~0").replace('/', "~1");
    let mut pointer = "#".to_owned();
    if let Some(name) = path.strip_prefix(HEADERS) {
        return format!("#/headers/{}", escaped(name));
    }
    for segment in path.split(['.', '[']).filter(|segment| !segment.is_empty()) {
        pointer.push('/');
        pointer.push_str(&escaped(segment.trim_end_matches(']')));
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_its_part() {
        for (text, pointer, detail) in [
            ("delivery.url: names no host", "#/delivery/url", "names no host"),
            ("items[3].token: missing", "#/items/3/token", "missing"),
            ("headers.x-a.b: does not travel", "#/headers/x-a.b", "does not travel"),
            ("it holds a line break: never", "#", "it holds a line break: never"),
            ("not an object", "#", "not an object"),
        ] {
            let part = InvalidPart::of(Location::Body, text);
            assert_eq!((part.pointer.as_deref(), part.detail.as_str()), (Some(pointer), detail));
        }
        let part = InvalidPart::of(Location::Header, "Reseq-Key: not UTF-8");
        assert_eq!(part.header.as_deref(), Some("Reseq-Key"));
        let part = InvalidPart::of(Location::Parameter, "limit: 0 is outside 1 to 1000");
        assert_eq!(part.parameter.as_deref(), Some("limit"));
    }
}
