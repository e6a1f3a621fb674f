//! The beginning of a text of unknown length and content.

/// How many characters of a foreign text are quoted in a reason.
const EXCERPT_CHARS_MAX: usize = 200;

/// The beginning of a foreign text for a log line or an error: at most 200 characters, with control
/// characters escaped.
pub fn excerpt(text: &[u8]) -> String {
    // A character has at most four bytes, so no more than this is needed.
    let looked_at = &text[..text.len().min(4 * (EXCERPT_CHARS_MAX + 1))];
    let mut shown = String::new();
    for (count, char) in String::from_utf8_lossy(looked_at).chars().enumerate() {
        if count == EXCERPT_CHARS_MAX {
            shown.push('…');
            break;
        }
        match char {
            _ if char.is_control() => shown.extend(char.escape_default()),
            _ => shown.push(char),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_cut_and_escaped() {
        assert_eq!(excerpt("für\r\n\u{1b}".as_bytes()), "für\\r\\n\\u{1b}");
        let long = excerpt("ü".repeat(5000).as_bytes());
        assert_eq!(long.chars().count(), EXCERPT_CHARS_MAX + 1);
        assert!(long.ends_with('…'));
        assert_eq!(excerpt(&[b'x'; 200]).len(), 200);
    }
}
