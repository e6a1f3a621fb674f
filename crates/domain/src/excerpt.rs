//! The beginning of a text of unknown length and content.

/// The most characters of a text from outside that a reason quotes.
const EXCERPT_CHARS_MAX: usize = 200;

/// The beginning of a text from outside, for a log line or an error: at most 200 characters, with control characters
/// escaped.
pub fn excerpt(text: &[u8]) -> String {
    // A character has at most four bytes, so these bytes are enough.
    let looked_at = &text[..text.len().min(4 * (EXCERPT_CHARS_MAX + 1))];
    let (mut shown, mut count) = (String::new(), 0);
    for char in String::from_utf8_lossy(looked_at).chars() {
        let is_escaped = is_unsafe(char);
        count += if is_escaped { char.escape_default().len() } else { 1 };
        if count > EXCERPT_CHARS_MAX {
            shown.push('…');
            break;
        }
        match is_escaped {
            true => shown.extend(char.escape_default()),
            false => shown.push(char),
        }
    }
    shown
}

/// True if a character could make a text look like another one in a terminal or in a log: control characters, line
/// separators, invisible characters, and characters that change the direction of writing.
pub fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_cut_and_escaped() {
        assert_eq!(excerpt("für\r\n\u{1b}".as_bytes()), "für\\r\\n\\u{1b}");
        assert_eq!(excerpt("a\u{2028}b\u{202e}c".as_bytes()), "a\\u{2028}b\\u{202e}c");
        let long = excerpt("ü".repeat(5000).as_bytes());
        assert_eq!(long.chars().count(), EXCERPT_CHARS_MAX + 1);
        assert!(long.ends_with('…'));
        assert_eq!(excerpt(&[b'x'; 200]).len(), 200);
        // Escapes count, too: each is five characters here.
        let escaped = excerpt(&[0; 200]);
        assert_eq!(escaped, "\\u{0}".repeat(40) + "…");
    }
}
