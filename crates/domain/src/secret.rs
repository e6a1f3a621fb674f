//! Secrets in a file: the secret itself, or a reference to it: `{ file = "…" }` or `{ env = "…" }`.
//!
//! Only a file on this machine may contain references. A request may not: without [`resolving`], a reference is
//! refused.

use std::{cell::RefCell, collections::BTreeMap, fmt, path::PathBuf, rc::Rc};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};

/// A reference to a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The content of a file.
    File(PathBuf),
    /// The value of an environment variable.
    Env(String),
}

/// Reads the secret that a reference names. The error never contains a secret.
type Resolver = Rc<dyn Fn(&Reference) -> Result<String, String>>;

thread_local! {
    /// A thread-local, because serde passes no state to the types that it reads.
    static RESOLVER: RefCell<Option<Resolver>> = const { RefCell::new(None) };
}

/// Runs `read`, and resolves the references that it finds.
pub fn resolving<T>(
    resolver: impl Fn(&Reference) -> Result<String, String> + 'static,
    read: impl FnOnce() -> T,
) -> T {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            RESOLVER.with(|resolver| resolver.replace(None));
        }
    }
    RESOLVER.with(|current| current.replace(Some(Rc::new(resolver))));
    let _end = End;
    read()
}

/// Reads a field with a secret.
pub fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    deserializer.deserialize_any(SecretVisitor)
}

/// Reads a list of secrets.
pub fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let secrets = Vec::<Secret>::deserialize(deserializer)?;
    Ok(secrets.into_iter().map(|Secret(text)| text).collect())
}

/// Reads secrets by name.
pub fn map<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let secrets = BTreeMap::<String, Secret>::deserialize(deserializer)?;
    Ok(secrets.into_iter().map(|(name, Secret(text))| (name, text)).collect())
}

struct Secret(String);

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer).map(Secret)
    }
}

struct SecretVisitor;

impl<'de> Visitor<'de> for SecretVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<String, E> {
        Ok(text)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
        const FORM: &str = "write the text itself, { file = \"…\" } or { env = \"…\" }";
        let Some(resolver) = RESOLVER.with(|resolver| resolver.borrow().clone()) else {
            let problem =
                "must be a string; only a file of this machine may refer to a file or a variable";
            return Err(A::Error::custom(problem));
        };
        let Some((kind, place)) = map.next_entry::<String, String>()? else {
            return Err(A::Error::custom(FORM));
        };
        let reference = match kind.as_str() {
            "file" => Reference::File(place.into()),
            "env" => Reference::Env(place),
            _ => return Err(A::Error::custom(FORM)),
        };
        if map.next_key::<String>()?.is_some() {
            return Err(A::Error::custom(FORM));
        }
        resolver(&reference).map_err(A::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Fields {
        #[serde(deserialize_with = "text")]
        one: String,
        #[serde(default, deserialize_with = "list")]
        many: Vec<String>,
        #[serde(default, deserialize_with = "map")]
        named: BTreeMap<String, String>,
    }

    fn read(text: &str) -> Result<Fields, String> {
        let resolver = |reference: &Reference| match reference {
            Reference::File(path) => Ok(format!("in {}", path.display())),
            Reference::Env(name) if name == "A" => Ok("of A".to_owned()),
            Reference::Env(name) => Err(format!("the variable {name} is not set")),
        };
        resolving(resolver, || toml::from_str(text)).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_reference_is_read_where_it_is_allowed_and_only_there() {
        let text = "one = { env = \"A\" }\nmany = [\"itself\", { file = \"/a\" }]\n\
                    named = { b = { env = \"A\" } }\nnamed.c.file = \"/c\"\n";
        // A table that is closed cannot be opened again.
        assert!(read(text).is_err());
        let fields =
            read(&text.replace("named = { b = { env = \"A\" } }", "named.b = \"itself\"")).unwrap();
        assert_eq!((&*fields.one, fields.many), ("of A", vec!["itself".into(), "in /a".into()]));
        assert_eq!(
            fields.named.into_iter().collect::<Vec<_>>(),
            [("b".into(), "itself".into()), ("c".into(), "in /c".into())]
        );
        for (text, problem) in [
            ("one = { env = \"B\" }", "B is not set"),
            ("one = { path = \"/a\" }", "write the text itself"),
            ("one = {}", "write the text itself"),
            ("one = { env = \"A\", file = \"/a\" }", "write the text itself"),
            ("one = { env = 1 }", "expected a string"),
            ("one = 1", "expected a string"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
        let error =
            serde_json::from_str::<Fields>(r#"{"one": {"file": "/etc/passwd"}}"#).unwrap_err();
        assert!(error.to_string().contains("must be a string"), "{error}");
    }
}
