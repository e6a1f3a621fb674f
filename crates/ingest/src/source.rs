//! Parses the source of a message: the field `source` and the header `Reseq-Source`.

use bytes::Bytes;
use serde::Deserialize;
use sfv::{Dictionary, ListEntry, Parser};
use utoipa::ToSchema;

use super::json::ItemError;
use domain::{
    Body, Source,
    message::{SOURCE_NAME_BYTES_MAX, SOURCE_POSITION_BYTES_MAX},
};
use formats::code::Code;

/// The allowed form of the header.
pub(super) const FORM: &str =
    "write name=\"orders/3\", position=\"0012\", after=\"0011\"; after may be left out";

/// The source of a message, as its producer writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = MessageSource)]
pub(super) struct SourceFields {
    /// The name of the source, such as a table, or a partition of a topic.
    #[schema(min_length = 1, max_length = 128)]
    name: String,
    /// The position of the message in its source. Positions are compared byte by byte.
    #[schema(min_length = 1, max_length = 64)]
    position: String,
    /// The position of the message before this one. Reseq stores this message only after that one.
    #[schema(min_length = 1, max_length = 64)]
    after: Option<String>,
    /// True: stores nothing, and only moves the mark to this position.
    #[serde(default)]
    skip: bool,
}

/// Checks the fields. The error begins with the name of the wrong field and a colon.
pub(super) fn check(fields: SourceFields) -> Result<Source, String> {
    let SourceFields { name, position, after, skip } = fields;
    printable(".name", &name, SOURCE_NAME_BYTES_MAX)?;
    printable(".position", &position, SOURCE_POSITION_BYTES_MAX)?;
    if let Some(after) = &after {
        printable(".after", after, SOURCE_POSITION_BYTES_MAX)?;
        if *after >= position {
            return Err(".after: it must be before position, compared byte by byte".to_owned());
        }
    }
    Ok(Source { name, position, after, skip })
}

fn printable(field: &str, text: &str, max: usize) -> Result<(), String> {
    if text.is_empty() || text.len() > max || !text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
    {
        return Err(format!("{field}: must be 1 to {max} printable ASCII characters"));
    }
    Ok(())
}

/// The body of a message that only moves a mark.
pub(super) fn no_body(has_body: bool) -> Result<Body, ItemError> {
    if has_body {
        let detail = "source.skip: the message is not stored; leave the body out".to_owned();
        return Err(ItemError { code: Code::InvalidField, detail });
    }
    Ok(Body { content_type: "application/octet-stream".to_owned(), bytes: Bytes::new() })
}

/// Parses the header: a dictionary of strings (RFC 9651, section 3.2).
pub(super) fn parse_header(text: &str) -> Option<SourceFields> {
    let dictionary: Dictionary = Parser::new(text).parse().ok()?;
    let mut fields = SourceFields::default();
    for (key, entry) in &dictionary {
        let ListEntry::Item(item) = entry else { return None };
        let text = item.bare_item.as_string()?.as_str().to_owned();
        match key.as_str() {
            "name" => fields.name = text,
            "position" => fields.position = text,
            "after" => fields.after = Some(text),
            _ => return None,
        }
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str) -> Result<Source, String> {
        check(parse_header(header).ok_or_else(|| FORM.to_owned())?)
    }

    #[test]
    fn header_says_what_the_field_says() {
        let source = read(r#"name="a \"b\"", position="0012", after="0011""#).unwrap();
        assert_eq!((&*source.name, &*source.position), ("a \"b\"", "0012"));
        assert_eq!(source.after.as_deref(), Some("0011"));
        assert_eq!(read(r#"name="a",position="1""#).unwrap().after, None);
        // Byte by byte.
        assert!(read(r#"name="a", position="9", after="10""#).is_ok());
    }

    #[test]
    fn wrong_source_is_refused_by_name() {
        for (header, problem) in [
            ("orders/3", "write name="),
            (r#"name="a", position=12"#, "write name="),
            (r#"name="a", position="1", skip="1""#, "write name="),
            (r#"name="a""#, ".position: must be 1 to 64"),
            (r#"name="", position="1""#, ".name: must be 1 to 128"),
            (r#"name="a", position="10", after="9""#, ".after: it must be before"),
        ] {
            let told = read(header);
            assert!(
                told.as_ref().is_err_and(|error| error.contains(problem)),
                "{header}: {told:?}"
            );
        }
    }
}
