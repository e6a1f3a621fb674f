//! A destination: a named receiver with its transform and its policies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Backoff, DestinationName};

/// What a shown secret is replaced by.
pub const MASK: &str = "***";

/// The definition of a destination, as in `[[destination]]` and in `PUT /v1/destinations/{d}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destination {
    /// Its name: `[a-z0-9._-]{1,64}`.
    pub name: DestinationName,
    /// The receiver: `http://`, `https://` or `tcp://host:port`.
    pub url: String,
    /// Static headers sent with each delivery (HTTP only), such as `authorization`.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
    /// How messages are processed before they are delivered.
    #[serde(default)]
    pub transform: Transform,
    /// How they are delivered.
    #[serde(default)]
    pub delivery: Delivery,
    /// What stays in order.
    #[serde(default)]
    pub ordering: Ordering,
    /// Ingest refuses what would make more messages than this pending.
    #[serde(default = "default_max_backlog")]
    pub max_backlog: u64,
    /// How long an idempotency key is remembered, in milliseconds.
    #[serde(default = "default_idempotency_window_ms")]
    pub idempotency_window_ms: u64,
}

/// What must stay in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ordering {
    /// All messages of the destination: one lane.
    #[default]
    Destination,
    /// The messages of one ordering key: one lane a key, made on demand.
    Key,
}

/// How messages are processed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Transform {
    /// Who processes.
    pub kind: TransformKind,
    /// `http`: where the body is POSTed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `native`: the name that the Rust transform was registered under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `http`: static headers of each request.
    #[serde(skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
    /// One attempt may take so long, in milliseconds.
    pub timeout_ms: u64,
    /// Attempts at once, in one processor pod.
    pub concurrency: u32,
    /// The upper end of the first wait between attempts, in milliseconds.
    pub backoff_ms: u64,
    /// The longest wait between attempts, in milliseconds.
    pub backoff_max_ms: u64,
}

/// Who processes a destination's messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransformKind {
    /// Nobody: a message is ready at once.
    #[default]
    None,
    /// A service that the processor POSTs to.
    Http,
    /// A user's own process, over the worker API.
    Worker,
    /// Rust code linked into the processor (Reseq as a library).
    Native,
}

/// How messages are delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Delivery {
    /// One attempt may take so long, in milliseconds.
    pub timeout_ms: u64,
    /// Lanes in flight at once.
    pub lanes_max: u32,
    /// The upper end of the first wait between attempts, in milliseconds.
    pub backoff_ms: u64,
    /// The longest wait between attempts, in milliseconds.
    pub backoff_max_ms: u64,
    /// TCP: how messages are told apart on the connection.
    pub framing: Framing,
    /// TCP: whether the receiver answers each frame.
    pub ack: Ack,
}

/// How messages are told apart on a TCP connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    /// A message is a line; it cannot contain `\n`.
    #[default]
    Lines,
    /// 4 bytes of length, big-endian, then so many bytes.
    Length,
}

/// Whether a TCP receiver answers each frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ack {
    /// `OK`, `RETRY [ms]` or `REJECT <reason>`, a frame each, in order.
    #[default]
    Line,
    /// It does not: what was written to the socket counts as delivered, and may be lost.
    None,
}

/// Header names in lower case, and their values.
pub type Headers = BTreeMap<String, String>;

impl Default for Transform {
    fn default() -> Self {
        Transform {
            kind: TransformKind::None,
            url: None,
            name: None,
            headers: Headers::new(),
            timeout_ms: 30_000,
            concurrency: 64,
            backoff_ms: 200,
            backoff_max_ms: 30_000,
        }
    }
}

impl Default for Delivery {
    fn default() -> Self {
        Delivery {
            timeout_ms: 15_000,
            lanes_max: 64,
            backoff_ms: 200,
            backoff_max_ms: 30_000,
            framing: Framing::Lines,
            ack: Ack::Line,
        }
    }
}

fn default_max_backlog() -> u64 {
    1_000_000
}

fn default_idempotency_window_ms() -> u64 {
    24 * 3600 * 1000
}

impl Transform {
    /// The wait between attempts.
    pub fn backoff(&self) -> Backoff {
        Backoff { base_ms: self.backoff_ms, max_ms: self.backoff_max_ms }
    }
}

impl Delivery {
    /// The wait between attempts.
    pub fn backoff(&self) -> Backoff {
        Backoff { base_ms: self.backoff_ms, max_ms: self.backoff_max_ms }
    }
}

/// A field of a definition that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidField {
    /// The field's path, such as `transform.url`.
    pub field: &'static str,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl Destination {
    /// A destination with the defaults of everything.
    pub fn new(name: DestinationName, url: impl Into<String>) -> Self {
        Destination {
            name,
            url: url.into(),
            headers: Headers::new(),
            transform: Transform::default(),
            delivery: Delivery::default(),
            ordering: Ordering::default(),
            max_backlog: default_max_backlog(),
            idempotency_window_ms: default_idempotency_window_ms(),
        }
    }

    /// True when the receiver speaks TCP frames.
    pub fn is_tcp(&self) -> bool {
        self.url.starts_with("tcp://")
    }

    /// The lane's key of a message with this ordering key; `None` is the destination's own lane.
    pub fn lane_key<'a>(&self, key: Option<&'a str>) -> Option<&'a str> {
        match self.ordering {
            Ordering::Destination => None,
            Ordering::Key => Some(key.unwrap_or_default()),
        }
    }

    /// The same with header values hidden: they tend to be secrets.
    pub fn masked(&self) -> Destination {
        let mut shown = self.clone();
        let both = shown.headers.values_mut().chain(shown.transform.headers.values_mut());
        both.for_each(|value| *value = MASK.to_owned());
        shown
    }

    /// Checks everything that serde could not. The first problem found is returned.
    pub fn validate(&self) -> Result<(), InvalidField> {
        check_url("url", &self.url, &["http", "https", "tcp"])?;
        check_headers("headers", &self.headers)?;
        check_headers("transform.headers", &self.transform.headers)?;
        if self.is_tcp() && !self.headers.is_empty() {
            return Err(bad("headers", "a TCP receiver gets no headers; leave them out"));
        }
        self.validate_transform()?;
        let delivery = &self.delivery;
        check_range("delivery.timeout_ms", delivery.timeout_ms, 1, 3_600_000)?;
        check_range("delivery.lanes_max", delivery.lanes_max.into(), 1, 10_000)?;
        check_backoff("delivery.backoff_max_ms", delivery.backoff())?;
        check_range("max_backlog", self.max_backlog, 1, 1 << 40)?;
        let month_ms = 31 * 24 * 3_600_000;
        check_range("idempotency_window_ms", self.idempotency_window_ms, 1_000, month_ms)
    }

    fn validate_transform(&self) -> Result<(), InvalidField> {
        let transform = &self.transform;
        match (transform.kind, &transform.url) {
            (TransformKind::Http, Some(url)) => {
                check_url("transform.url", url, &["http", "https"])?;
            }
            (TransformKind::Http, None) => {
                return Err(bad("transform.url", "a transform of kind \"http\" needs a url"));
            }
            (_, Some(_)) => {
                return Err(bad("transform.url", "only a transform of kind \"http\" has a url"));
            }
            (_, None) => {}
        }
        if (transform.kind == TransformKind::Native) != transform.name.is_some() {
            let problem = "a transform of kind \"native\" has a name, and no other has";
            return Err(bad("transform.name", problem));
        }
        check_range("transform.timeout_ms", transform.timeout_ms, 1, 24 * 3_600_000)?;
        check_range("transform.concurrency", transform.concurrency.into(), 1, 100_000)?;
        check_backoff("transform.backoff_max_ms", transform.backoff())
    }
}

fn bad(field: &'static str, problem: impl Into<String>) -> InvalidField {
    InvalidField { field, problem: problem.into() }
}

fn check_range(field: &'static str, value: u64, min: u64, max: u64) -> Result<(), InvalidField> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(bad(field, format!("{value} is outside {min} to {max}")))
}

fn check_backoff(field: &'static str, backoff: Backoff) -> Result<(), InvalidField> {
    check_range(field, backoff.max_ms, backoff.base_ms.max(1), 24 * 3_600_000)
}

fn check_url(field: &'static str, text: &str, schemes: &[&str]) -> Result<(), InvalidField> {
    let url = url::Url::parse(text).map_err(|error| {
        bad(field, format!("not a URL ({error}); write e.g. http://host:port/"))
    })?;
    if !schemes.contains(&url.scheme()) {
        let problem = format!("the scheme must be one of {}", schemes.join(", "));
        return Err(bad(field, problem));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(bad(field, "names no host"));
    }
    if url.scheme() == "tcp" && url.port().is_none() {
        return Err(bad(field, "a tcp:// address needs a port"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let problem = "must not carry a user or password; send an authorization header instead";
        return Err(bad(field, problem));
    }
    Ok(())
}

fn check_headers(field: &'static str, headers: &Headers) -> Result<(), InvalidField> {
    for (name, value) in headers {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty() || !name.bytes().all(token) {
            return Err(bad(field, format!("{name:?} is not a header name")));
        }
        if name.to_ascii_lowercase().starts_with("reseq-") {
            return Err(bad(field, format!("{name:?}: Reseq-* headers are Reseq's own")));
        }
        if value == MASK {
            let problem = format!(
                "{name:?} holds the mask that replaces shown secrets; write its real value"
            );
            return Err(bad(field, problem));
        }
        if value.bytes().any(|b| b < b' ' && b != b'\t' || b == 0x7f) {
            return Err(bad(field, format!("the value of {name:?} holds control characters")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn erp() -> Destination {
        Destination::new("erp".parse().unwrap(), "http://127.0.0.1:9001/in")
    }

    fn refused(change: impl FnOnce(&mut Destination)) -> &'static str {
        let mut destination = erp();
        change(&mut destination);
        destination.validate().unwrap_err().field
    }

    #[test]
    fn defaults_are_valid_and_every_bad_field_is_named() {
        assert_eq!(erp().validate(), Ok(()));
        assert_eq!(refused(|d| d.url = "ftp://h/".into()), "url");
        assert_eq!(refused(|d| d.url = "tcp://h".into()), "url");
        assert_eq!(refused(|d| d.url = "http://u:p@h/".into()), "url");
        assert_eq!(refused(|d| d.transform.kind = TransformKind::Http), "transform.url");
        assert_eq!(refused(|d| d.transform.kind = TransformKind::Native), "transform.name");
        assert_eq!(refused(|d| d.transform.concurrency = 0), "transform.concurrency");
        assert_eq!(refused(|d| d.delivery.lanes_max = 0), "delivery.lanes_max");
        assert_eq!(refused(|d| d.delivery.backoff_max_ms = 1), "delivery.backoff_max_ms");
        assert_eq!(refused(|d| d.max_backlog = 0), "max_backlog");
        let header = |name: &str, value: &str| {
            let entry = (name.to_owned(), value.to_owned());
            refused(|d| d.headers = [entry].into())
        };
        assert_eq!(header("reseq-id", "1"), "headers");
        assert_eq!(header("a b", "1"), "headers");
        assert_eq!(header("x-a", "1\r\nx-b: 2"), "headers");
        assert_eq!(header("authorization", MASK), "headers");
    }

    #[test]
    fn shown_definitions_hide_header_values() {
        let mut destination = erp();
        destination.headers.insert("authorization".into(), "Bearer s3cret".into());
        destination.transform.headers.insert("authorization".into(), "s3cret".into());
        let shown = serde_json::to_string(&destination.masked()).unwrap();
        assert!(!shown.contains("s3cret") && shown.contains(MASK));
    }

    #[test]
    fn unknown_fields_and_values_are_named() {
        let error = |json: &str| serde_json::from_str::<Destination>(json).unwrap_err().to_string();
        assert!(error(r#"{"name":"a","url":"x","colour":1}"#).contains("colour"));
        let framing = r#"{"name":"a","url":"x","delivery":{"framing":"morse"}}"#;
        assert!(error(framing).contains("morse"));
    }
}
