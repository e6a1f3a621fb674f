//! Short encodings of common values: for a record of about 250 bytes, a few bytes decide whether Redis allocates 256
//! or 320 bytes.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};
use uuid::Uuid;

/// Content types that are stored as their index here. Never change an index: records contain it.
const KNOWN: [&str; 6] = [
    "application/json",
    "application/octet-stream",
    "text/plain",
    "text/plain; charset=utf-8",
    "application/xml",
    "application/x-www-form-urlencoded",
];

/// The id of a message. Most ids are UUIDs, which are stored as 16 bytes; other ids are stored as text.
pub(super) enum Id {
    Uuid(Uuid),
    Text(String),
}

impl Id {
    pub(super) fn of(text: &str) -> Id {
        match Uuid::parse_str(text) {
            Ok(uuid) if uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text => {
                Id::Uuid(uuid)
            }
            _ => Id::Text(text.to_owned()),
        }
    }

    pub(super) fn into_text(self) -> String {
        match self {
            Id::Uuid(uuid) => uuid.hyphenated().to_string(),
            Id::Text(text) => text,
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Id::Uuid(uuid) => to.serialize_bytes(uuid.as_bytes()),
            Id::Text(text) => to.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Id, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the 16 bytes of a UUID, or a string")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Id, E> {
                Uuid::from_slice(bytes).map(Id::Uuid).map_err(E::custom)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Id, E> {
                Ok(Id::Text(text.to_owned()))
            }
        }

        from.deserialize_any(Either)
    }
}

/// A content type: one of [`KNOWN`], or any other text.
pub(super) enum ContentType {
    CatalogEntry(u8),
    Text(String),
}

impl ContentType {
    pub(super) fn of(text: &str) -> ContentType {
        match KNOWN.iter().position(|known| *known == text) {
            Some(position) => ContentType::CatalogEntry(position as u8),
            None => ContentType::Text(text.to_owned()),
        }
    }

    pub(super) fn into_text(self) -> String {
        match self {
            ContentType::CatalogEntry(position) => KNOWN[usize::from(position)].to_owned(),
            ContentType::Text(text) => text,
        }
    }
}

impl Serialize for ContentType {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            ContentType::CatalogEntry(position) => to.serialize_u8(*position),
            ContentType::Text(text) => to.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for ContentType {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ContentType, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = ContentType;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the index of a known content type, or a string")
            }

            fn visit_u64<E: Error>(self, position: u64) -> Result<ContentType, E> {
                match u8::try_from(position) {
                    Ok(position) if usize::from(position) < KNOWN.len() => {
                        Ok(ContentType::CatalogEntry(position))
                    }
                    _ => Err(E::custom("a content type that this version does not know")),
                }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ContentType, E> {
                Ok(ContentType::Text(text.to_owned()))
            }
        }

        from.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through<T: Serialize + for<'a> Deserialize<'a>>(value: &T) -> (usize, T) {
        let bytes = rmp_serde::to_vec(value).unwrap();
        (bytes.len(), rmp_serde::from_slice(&bytes).unwrap())
    }

    #[test]
    fn what_is_known_is_short_and_everything_comes_back() {
        for (text, length) in KNOWN.into_iter().map(|text| (text, 1)).chain([("b", 2), ("", 1)]) {
            let (bytes, found) = through(&ContentType::of(text));
            assert_eq!((found.into_text().as_str(), bytes), (text, length));
        }
        let uuid = Uuid::from_u128(7).to_string();
        let upper = "0123456789ABCDEF0123456789ABCDEF";
        for (text, length) in [(uuid.as_str(), 18), ("order-7", 8), (upper, 34), ("", 1)] {
            let (bytes, found) = through(&Id::of(text));
            assert_eq!((found.into_text().as_str(), bytes), (text, length));
        }
        assert!(rmp_serde::from_slice::<ContentType>(&[99]).is_err());
    }
}
