//! The header `Idempotency-Key`.

use axum::http::HeaderMap;

use domain::message::{IDEMPOTENCY_KEY_BYTES_MAX, check_text};

/// The name of the header.
pub const NAME: &str = "Idempotency-Key";

/// The idempotency key. The IETF draft (draft-ietf-httpapi-idempotency-key-header) writes it as a string
/// of structured fields, in quotes; most clients write it without quotes. Both mean the same.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, String> {
    // Quotes, and a backslash before each character that needs one.
    let max = 2 * IDEMPOTENCY_KEY_BYTES_MAX + 2;
    let Some(value) = headers.get(NAME) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| format!("{NAME}: not UTF-8"))?;
    check_text(NAME, text, max)?;
    let key = match text.strip_prefix('"') {
        None => text.to_owned(),
        Some(quoted) => unquoted(quoted).ok_or_else(|| {
            format!("{NAME}: a value in quotes is one string, such as \"order-7\"")
        })?,
    };
    check_text(NAME, &key, IDEMPOTENCY_KEY_BYTES_MAX)?;
    Ok(Some(key))
}

/// The string of structured fields (RFC 9651, section 3.3.3) after its first quote.
fn unquoted(text: &str) -> Option<String> {
    let mut key = String::with_capacity(text.len());
    let mut rest = text.chars();
    loop {
        match rest.next()? {
            '"' => return rest.as_str().is_empty().then_some(key),
            '\\' => key.push(rest.next().filter(|c| matches!(c, '"' | '\\'))?),
            c => key.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    #[test]
    fn an_idempotency_key_means_the_same_with_and_without_quotes() {
        let key = |value: &str| {
            let value = value.parse().unwrap();
            idempotency_key(&HeaderMap::from_iter([(
                HeaderName::from_static("idempotency-key"),
                value,
            )]))
        };
        for (value, right) in [
            ("order-7", "order-7"),
            (r#""order-7""#, "order-7"),
            (r#""a \"b\" \\ c""#, r#"a "b" \ c"#),
            (r#"a"b"#, r#"a"b"#),
            (r"a\b", r"a\b"),
        ] {
            assert_eq!(key(value), Ok(Some(right.to_owned())), "{value}");
        }
        for value in [r#""order-7"#, r#"""#, r#""a";b=1"#, r#""a" "b""#, r#""a\b""#, r#""""#] {
            let error = key(value).unwrap_err();
            assert!(error.starts_with("Idempotency-Key: "), "{value}: {error}");
        }
    }
}
