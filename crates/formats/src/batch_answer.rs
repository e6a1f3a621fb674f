//! Reads how many messages of a batch a receiver's 2xx answer acknowledges.
//!
//! ```text
//! no field `accepted`, whatever the answer is (empty, text, other JSON)       all
//! {"accepted": n}, n a whole number from 0 to the size of the batch           the first n
//! anything else that names `accepted`, or may be part of such an object       unclear: counts as none
//! ```
//!
//! An unclear answer must not count as accepted: messages that the receiver does not have would
//! be lost. The opposite error only causes repeats, which receivers recognise.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

use domain::excerpt::excerpt;

/// The field with the number of accepted messages.
const FIELD: &str = "accepted";

/// How many messages of a batch an answer acknowledges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// The receiver accepted this many messages, the first ones; 0 is a refusal.
    First(usize),
    /// The answer is unclear, for this reason.
    Unclear(String),
}

/// Parses the whole body of a 2xx for a batch of `count` messages.
pub fn accepted(body: &[u8], count: usize) -> Accepted {
    // Some servers write a byte order mark before JSON; ignore it.
    let text = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body).trim_ascii();
    let unclear = |problem: &str| Accepted::Unclear(format!("{problem}: {}", excerpt(text)));
    let Ok(said) = serde_json::from_slice::<Said>(text) else {
        let characters = String::from_utf8_lossy(text).replace('\0', "");
        let characters = characters.trim_start_matches(['\u{feff}', char::REPLACEMENT_CHARACTER]);
        if characters.trim_start().starts_with('{') || is_named_in(characters) {
            return unclear(&format!("the answer may name `{FIELD}`, but cannot be read as JSON"));
        }
        return Accepted::First(count);
    };
    match said.fields[..] {
        [Some(number)] if number <= count as u64 => Accepted::First(number as usize),
        [] if !said.is_named && !said.is_named_in_text => Accepted::First(count),
        _ => unclear(&format!(
            "the answer names `{FIELD}`, but not as a whole number from 0 to {count} in one object"
        )),
    }
}

/// True if a text that is not JSON uses the word as a name: in quotes, as a tag, or before a `:` or
/// `=`. "202 Accepted" does not.
fn is_named_in(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.match_indices(FIELD).any(|(at, word)| {
        let behind = text[at + word.len()..].trim_start_matches(['"', '\'', '\\', ' ', '\t']);
        text[..at].ends_with(['"', '\'', '<']) || behind.starts_with([':', '='])
    })
}

/// The mentions of the field in a JSON value, at any depth.
#[derive(Default)]
struct Said {
    /// The number, if the value is a whole number.
    number: Option<u64>,
    /// If the value is a string: whether its text names the field.
    is_named_in_text: bool,
    /// If the value is an object: its fields of that name, with their numbers. A name in another
    /// case has no number.
    fields: Vec<Option<u64>>,
    /// True if the field occurs anywhere below.
    is_named: bool,
}

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Said, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Said;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Said, E> {
        Ok(Said { number: Some(number), ..Said::default() })
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Said, E> {
        Ok(Said::default())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Said, E> {
        Ok(Said::default())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Said, E> {
        Ok(Said::default())
    }

    fn visit_unit<E: Error>(self) -> Result<Said, E> {
        Ok(Said::default())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Said, E> {
        Ok(Said { is_named_in_text: is_named_in(text), ..Said::default() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Said, A::Error> {
        let mut said = Said::default();
        while let Some(value) = values.next_element::<Said>()? {
            said.is_named |= value.is_named;
        }
        Ok(said)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Said, A::Error> {
        let mut said = Said::default();
        while let Some(name) = entries.next_key::<String>()? {
            if name.trim().eq_ignore_ascii_case(FIELD) {
                said.is_named = true;
                let value = entries.next_value::<Said>()?;
                said.fields.push(value.number.filter(|_| name == FIELD));
                continue;
            }
            said.is_named |= entries.next_value::<Said>()?.is_named;
        }
        Ok(said)
    }
}
