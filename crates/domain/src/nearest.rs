//! Finds the known name that a mistyped name probably means, and rewrites errors of serde for people.

use strsim::damerau_levenshtein;

/// The known name that is most similar to `name`.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &&str| {
        // A name that begins or ends with the given one, such as `timeout` and `timeout_ms`, is the
        // best match.
        let holds = known.starts_with(name) || known.ends_with(name) || name.ends_with(*known);
        (!holds, damerau_levenshtein(name, known))
    };
    known.into_iter().min_by_key(distance)
}

/// The names of Rust for numbers, and the words that people use.
const NUMBERS: [(&str, &str); 7] = [
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number of at least 0"),
    ("usize", "a whole number of at least 0"),
    ("i64", "a whole number"),
    ("f64", "a number"),
];

/// Rewrites an error of serde for people. For an unknown field or variant, the text adds the nearest known name.
pub fn for_people(text: &str) -> String {
    // unknown field `a`, expected one of `b`, `c`
    let Some((given, expected)) = text.split_once(", expected ") else { return text.to_owned() };
    // invalid type: floating point `0.5`, expected u32 at line 1
    let (first, rest) = expected.split_at(expected.find(' ').unwrap_or(expected.len()));
    if let Some((_, words)) = NUMBERS.iter().find(|(number, _)| *number == first) {
        return format!("{given}, expected {words}{rest}");
    }
    let unknown = given.rfind("unknown ").and_then(|at| given[at..].split('`').nth(1));
    let names = expected.split('`').skip(1).step_by(2);
    match unknown.and_then(|unknown| nearest(unknown, names)) {
        // Put the suggestion before the list, which may be long.
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
            assert_eq!(for_people(text), text.replace(", expected", &format!(" {suggestion}")));
        }
        assert_eq!(
            for_people("burst: invalid type: string \"x\", expected u32 at line 1"),
            "burst: invalid type: string \"x\", expected a whole number from 0 to 4294967295 at line 1"
        );
        for text in ["missing field `url`", "unknown field `x`, there are no fields", ""] {
            assert_eq!(for_people(text), text);
        }
    }
}
