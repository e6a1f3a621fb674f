//! Quotes texts for commands that people paste into a shell.

/// Quotes a text for the shell.
pub fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_quotes_is_one_word_for_the_shell() {
        assert_eq!(["a-1", "a b", "it's", ""].map(quoted), ["a-1", "'a b'", "'it'\\''s'", "''"]);
    }
}
