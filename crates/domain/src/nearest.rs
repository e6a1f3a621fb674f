//! The known name that a mistyped one probably means.

use strsim::damerau_levenshtein;

/// The most similar of the known names.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &&str| {
        // A name that begins or ends with the given one, such as `timeout` and `timeout_ms`, is the
        // best match.
        let holds = known.starts_with(name) || known.ends_with(name) || name.ends_with(*known);
        (!holds, damerau_levenshtein(name, known))
    };
    known.into_iter().min_by_key(distance)
}

/// Serde's text about an unknown field or variant, with the nearest known one in addition; any
/// other text as it is.
pub fn with_nearest(text: &str) -> String {
    // unknown field `a`, expected one of `b`, `c`
    let Some((given, expected)) = text.split_once(", expected ") else { return text.to_owned() };
    let unknown = given.rfind("unknown ").and_then(|at| given[at..].split('`').nth(1));
    let names = expected.split('`').skip(1).step_by(2);
    match unknown.and_then(|unknown| nearest(unknown, names)) {
        // Before the list, which may be long.
        Some(known) => format!("{given} (did you mean `{known}`?), expected {expected}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        for (text, known) in [
            ("unknown field `urll`, expected one of `name`, `url`, `headers`", "url"),
            (
                "delivery: unknown field `timeout`, expected one of `lanes_max`, `timeout_ms` at line 1",
                "timeout_ms",
            ),
            ("unknown variant `halted`, expected `halt` or `drop`", "halt"),
            ("unknown field `x`, expected `name`", "name"),
        ] {
            let suggestion = format!("(did you mean `{known}`?), expected");
            assert_eq!(with_nearest(text), text.replace(", expected", &format!(" {suggestion}")));
        }
        for text in ["missing field `url`", "unknown field `x`, there are no fields", ""] {
            assert_eq!(with_nearest(text), text);
        }
    }
}
