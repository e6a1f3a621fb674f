//! Validates a definition when it is created, so that it cannot fail later.

use super::{
    DeliveryKind, Destination, Envelope, Headers, InvalidField, MASK, Ordering, Processing,
    SIGNATURE_PREFIX, TransformKind, expression::Expression,
};
use crate::{Backoff, message::is_token};

/// The problem of a header that no definition may set.
const FRAMING: &str =
    "connection content-length expect host keep-alive te trailer transfer-encoding upgrade";
const DAY_MS: u64 = 24 * 3_600_000;
/// Redis counts intervals in whole microseconds: up to this rate, rounding costs at most 1 % of it.
const RATE_MAX: u64 = 10_000;

impl Destination {
    /// Checks ranges and contradictions. Returns the first problem.
    pub fn validate(&self) -> Result<(), InvalidField> {
        self.validate_receiver()?;
        check_headers("headers", &self.headers)?;
        check_headers("transform.headers", &self.transform.headers)?;
        if self.is_tcp() && !self.headers.is_empty() {
            return Err(bad("headers", "a TCP receiver gets no headers; leave them out"));
        }
        self.validate_sign()?;
        self.validate_verify()?;
        self.validate_what_arrives()?;
        self.validate_transform()?;
        let delivery = &self.delivery;
        check_range("delivery.timeout_ms", delivery.timeout_ms, 1, 3_600_000)?;
        check_range("delivery.lanes_max", delivery.lanes_max.into(), 1, 10_000)?;
        check_range("delivery.backoff_ms", delivery.backoff_ms, 1, DAY_MS)?;
        check_backoff("delivery.backoff_max_ms", delivery.backoff())?;
        check_range(
            "delivery.rate_per_second_max",
            delivery.rate_per_second_max.into(),
            0,
            1_000_000,
        )?;
        let asked_ms = delivery.retry_after_max_ms;
        check_range("delivery.retry_after_max_ms", asked_ms, 0, DAY_MS)?;
        check_range("delivery.breaker_failures", delivery.breaker_failures.into(), 0, 10_000)?;
        self.validate_batch()?;
        if self.processing == Processing::Serial && self.ordering == Ordering::None {
            let problem = "\"serial\" processes a lane's messages one by one, and with ordering \
                           \"none\" there are no lanes; use ordering \"key\" or \"destination\"";
            return Err(bad("processing", problem));
        }
        self.validate_shards()?;
        check_range("weight", self.weight.into(), 1, 100)?;
        check_range("backlog_max", self.backlog_max, 1, 1 << 40)?;
        check_range("backlog_bytes_max", self.backlog_bytes_max, 0, 1 << 50)?;
        let rate = self.ingest_rate_per_second_max;
        check_range("ingest_rate_per_second_max", rate.into(), 0, 1_000_000)?;
        if self.idempotency_window_ms > 0 {
            let window_ms = self.idempotency_window_ms;
            check_range("idempotency_window_ms", window_ms, 1_000, 31 * DAY_MS)?;
        }
        check_range("idempotency_keys_max", self.idempotency_keys_max, 1, 1 << 40)?;
        check_range("sources_max", self.sources_max, 0, 16_384)?;
        if self.log_bodies && self.log_max == 0 {
            let problem = "there is no log to hold them; set log_max, or leave log_bodies out";
            return Err(bad("log_bodies", problem));
        }
        check_range("dead_letters_max", self.dead_letters_max, 0, 1 << 40)?;
        if self.dead_letters_age_max_ms > 0 {
            let age_ms = self.dead_letters_age_max_ms;
            check_range("dead_letters_age_max_ms", age_ms, 1_000, 3_650 * DAY_MS)?;
        }
        check_range("log_max", self.log_max, 0, 10_000_000)?;
        check_range("previous_keys_max", self.previous_keys_max, 0, 1_000_000)?;
        check_range("ids_max", self.ids_max, 0, 10_000_000)
    }

    fn validate_receiver(&self) -> Result<(), InvalidField> {
        if self.delivery.kind == DeliveryKind::Push {
            let problem = "give the URL of the receiver; without a receiver, set delivery.kind to \"pull\" \
                           or \"none\"";
            let url = self.url.as_deref().ok_or_else(|| bad("url", problem))?;
            return check_url("url", url, &["http", "https", "tcp", "tls"]);
        }
        let problem = "means nothing with this delivery.kind, because nothing is sent to a receiver; \
                       leave it out";
        let unused = [
            ("url", self.url.is_some()),
            ("headers", !self.headers.is_empty()),
            ("sign", self.sign.is_some()),
        ];
        let unused = unused.into_iter().find(|(_, is_set)| *is_set).map(|(field, _)| field);
        if let Some(field) = unused.or_else(|| self.delivery.unused()) {
            return Err(bad(field, problem));
        }
        let is_lost = self.delivery.kind == DeliveryKind::None;
        if is_lost && self.transform.kind == TransformKind::None {
            let problem = "with \"none\", and without a transform, each message would be lost at \
                           once; set transform.kind, or url for a receiver";
            return Err(bad("delivery.kind", problem));
        }
        Ok(())
    }

    fn validate_sign(&self) -> Result<(), InvalidField> {
        let Some(sign) = &self.sign else { return Ok(()) };
        sign.validate()?;
        if self.is_tcp() {
            return Err(bad("sign", "a TCP receiver gets no headers, so nothing can be signed"));
        }
        let is_set = |name: &String| name.to_ascii_lowercase().starts_with(SIGNATURE_PREFIX);
        if self.headers.keys().any(is_set) {
            return Err(bad("headers", "sign sets the webhook-… headers; leave them out"));
        }
        Ok(())
    }

    fn validate_verify(&self) -> Result<(), InvalidField> {
        let Some(verify) = &self.verify else { return Ok(()) };
        verify.validate()?;
        let tolerance_ms = verify.tolerance_ms();
        if verify.has_time() && self.idempotency_window_ms < 2 * tolerance_ms {
            let problem = format!(
                "{} is less than twice verify.tolerance_ms ({}): a repeat with a valid signature could \
                 arrive after its idempotency key is forgotten",
                self.idempotency_window_ms,
                2 * tolerance_ms
            );
            return Err(bad("idempotency_window_ms", problem));
        }
        Ok(())
    }

    fn validate_what_arrives(&self) -> Result<(), InvalidField> {
        self.forward_headers.validate().map_err(|problem| bad("forward_headers", problem))?;
        let sources = [
            (&self.key_from, ["key_from.header", "key_from.jq"]),
            (
                &self.idempotency_key_from,
                ["idempotency_key_from.header", "idempotency_key_from.jq"],
            ),
        ];
        for (source, [header, jq]) in sources {
            let checked = source.as_ref().map_or(Ok(()), |source| source.validate());
            checked
                .map_err(|(part, problem)| bad(if part == "jq" { jq } else { header }, problem))?;
        }
        // The pattern names the header of `verify`: all other ignored patterns were refused above.
        let problem = "names the header of verify, whose value must not be stored or sent";
        self.ignored_field().map_or(Ok(()), |field| Err(bad(field, problem)))
    }

    fn validate_batch(&self) -> Result<(), InvalidField> {
        let delivery = &self.delivery;
        check_range("delivery.batch_max", delivery.batch_max.into(), 1, 1_000)?;
        check_range("delivery.batch_bytes_max", delivery.batch_bytes_max, 1, 64 << 20)?;
        check_range("delivery.batch_linger_ms", delivery.batch_linger_ms, 0, 60_000)?;
        if delivery.batch_max > 1 && self.is_tcp() {
            let problem =
                "only an http:// receiver takes batches; over TCP use delivery.window_max";
            return Err(bad("delivery.batch_max", problem));
        }
        check_range("delivery.window_max", delivery.window_max.into(), 1, 1_000)?;
        if delivery.window_max > 1 && !self.is_tcp() {
            let problem = "only a tcp:// receiver takes frames ahead of its answers; over HTTP use \
                           delivery.batch_max";
            return Err(bad("delivery.window_max", problem));
        }
        if delivery.envelope == Envelope::Json && !self.is_tcp() {
            let problem = "only frames of a tcp:// receiver are put into envelopes; over HTTP the headers \
                           say it, and batches (delivery.batch_max) always are";
            return Err(bad("delivery.envelope", problem));
        }
        if delivery.window_max > 1 && delivery.rate_per_second_max > 0 {
            let problem = "frames in flight together cannot be paced one by one; leave out \
                           delivery.window_max or delivery.rate_per_second_max";
            return Err(bad("delivery.window_max", problem));
        }
        Ok(())
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
        if (transform.kind == TransformKind::Jq) != transform.expression.is_some() {
            let problem = "only a transform of kind \"jq\" has an expression, and it must have one";
            return Err(bad("transform.expression", problem));
        }
        if let Some(expression) = &transform.expression {
            Expression::parse(expression).map_err(|p| bad("transform.expression", p))?;
        }
        if (transform.kind == TransformKind::Native) != transform.name.is_some() {
            let problem = "only a transform of kind \"native\" has a name, and it must have one";
            return Err(bad("transform.name", problem));
        }
        check_range("transform.timeout_ms", transform.timeout_ms, 1, DAY_MS)?;
        if transform.attempt_ms_max != 0 {
            check_range("transform.attempt_ms_max", transform.attempt_ms_max, 1000, 30 * DAY_MS)?;
        }
        check_range("transform.concurrency", transform.concurrency.into(), 1, 100_000)?;
        let rate = transform.rate_per_second_max;
        check_range("transform.rate_per_second_max", rate.into(), 0, RATE_MAX)?;
        check_range("transform.burst", transform.burst.into(), 1, RATE_MAX)?;
        if rate > 0 && transform.kind == TransformKind::None {
            let problem = "without a transform there are no attempts to limit; set transform.kind, or limit \
                           deliveries with delivery.rate_per_second_max";
            return Err(bad("transform.rate_per_second_max", problem));
        }
        if rate == 0 && transform.burst > 1 {
            let problem = "means nothing without transform.rate_per_second_max; set that, too";
            return Err(bad("transform.burst", problem));
        }
        let asked_ms = transform.retry_after_max_ms;
        check_range("transform.retry_after_max_ms", asked_ms, 0, DAY_MS)?;
        check_range("transform.backoff_ms", transform.backoff_ms, 1, DAY_MS)?;
        check_backoff("transform.backoff_max_ms", transform.backoff())
    }
}

pub(super) fn bad(field: &'static str, problem: impl Into<String>) -> InvalidField {
    InvalidField { field, problem: problem.into() }
}

pub(super) fn check_range(
    field: &'static str,
    value: u64,
    min: u64,
    max: u64,
) -> Result<(), InvalidField> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(bad(field, format!("{value} is outside {min} to {max}")))
}

fn check_backoff(field: &'static str, backoff: Backoff) -> Result<(), InvalidField> {
    check_range(field, backoff.max_ms, backoff.base_ms, DAY_MS)
}

fn check_url(field: &'static str, text: &str, schemes: &[&str]) -> Result<(), InvalidField> {
    let url = url::Url::parse(text).map_err(|error| {
        bad(field, format!("not a URL ({error}); write e.g. http://host:port/"))
    })?;
    if !schemes.contains(&url.scheme()) {
        let problem = format!("the scheme must be one of {}", schemes.join(", "));
        return Err(bad(field, problem));
    }
    // The URL parser is lenient, so check the beginning of the text itself.
    if !text.starts_with(&format!("{}://", url.scheme())) {
        let problem = format!("must begin with {}://, in lower case", url.scheme());
        return Err(bad(field, problem));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(bad(field, "names no host"));
    }
    if matches!(url.scheme(), "tcp" | "tls") && url.port().is_none() {
        return Err(bad(field, "a tcp:// or tls:// address needs a port"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let problem = "must not carry a user or password; send an authorization header instead";
        return Err(bad(field, problem));
    }
    Ok(())
}

fn check_headers(field: &'static str, headers: &Headers) -> Result<(), InvalidField> {
    for (name, value) in headers {
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(bad(field, format!("{name:?} is not a header name")));
        }
        if name.to_ascii_lowercase().starts_with("reseq-") {
            return Err(bad(field, format!("{name:?}: Reseq-* headers are reserved")));
        }
        if FRAMING.split(' ').any(|framing| name.eq_ignore_ascii_case(framing)) {
            let problem = "frames the request, or belongs to the connection; leave it out";
            return Err(bad(field, format!("{name:?} {problem}")));
        }
        if value == MASK {
            let problem = format!(
                "{name:?} contains the mask that replaces secrets in output; write its real value"
            );
            return Err(bad(field, problem));
        }
        if value.bytes().any(|b| b < b' ' && b != b'\t' || b == 0x7f) {
            return Err(bad(field, format!("the value of {name:?} contains control characters")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destination::{ForwardHeaders, KeySource};

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
        assert_eq!(refused(|d| d.url = Some("ftp://h/".into())), "url");
        assert_eq!(refused(|d| d.url = None), "url");
        for url in ["tcp://h", "tls://h", "TCP://h:1", " tcp://h:1", "HTTP://h/"] {
            assert_eq!(refused(|d| d.url = Some(url.into())), "url");
        }
        assert_eq!(refused(|d| d.url = Some("http://u:p@h/".into())), "url");
        assert_eq!(refused(|d| d.transform.kind = TransformKind::Http), "transform.url");
        assert_eq!(refused(|d| d.transform.kind = TransformKind::Native), "transform.name");
        assert_eq!(refused(|d| d.transform.concurrency = 0), "transform.concurrency");
        assert_eq!(refused(|d| d.transform.attempt_ms_max = 999), "transform.attempt_ms_max");
        assert_eq!(
            refused(|d| d.transform.rate_per_second_max = 1),
            "transform.rate_per_second_max"
        );
        assert_eq!(refused(|d| d.transform.burst = 2), "transform.burst");
        assert_eq!(refused(|d| d.transform.burst = 0), "transform.burst");
        assert_eq!(refused(|d| d.delivery.lanes_max = 0), "delivery.lanes_max");
        assert_eq!(refused(|d| d.delivery.backoff_max_ms = 1), "delivery.backoff_max_ms");
        assert_eq!(refused(|d| d.delivery.backoff_ms = 0), "delivery.backoff_ms");
        assert_eq!(refused(|d| d.transform.backoff_ms = 0), "transform.backoff_ms");
        assert_eq!(refused(|d| (d.log_bodies, d.log_max) = (true, 0)), "log_bodies");
        assert_eq!(refused(|d| d.previous_keys_max = 1_000_001), "previous_keys_max");
        assert_eq!(refused(|d| d.ids_max = 10_000_001), "ids_max");
        assert_eq!(refused(|d| d.backlog_max = 0), "backlog_max");
        assert_eq!(refused(|d| d.transform.kind = TransformKind::Jq), "transform.expression");
        assert_eq!(refused(|d| d.delivery.batch_max = 0), "delivery.batch_max");
        let batches_over_tcp = |d: &mut Destination| {
            d.url = Some("tcp://h:1".into());
            d.delivery.batch_max = 2;
        };
        assert_eq!(refused(batches_over_tcp), "delivery.batch_max");
        assert_eq!(refused(|d| d.delivery.window_max = 2), "delivery.window_max");
        let paced_window = |d: &mut Destination| {
            d.url = Some("tcp://h:1".into());
            (d.delivery.window_max, d.delivery.rate_per_second_max) = (2, 10);
        };
        assert_eq!(refused(paced_window), "delivery.window_max");
        let serial_without_lanes = |d: &mut Destination| {
            d.processing = Processing::Serial;
            d.ordering = Ordering::None;
        };
        assert_eq!(refused(serial_without_lanes), "processing");
        assert_eq!(refused(|d| d.weight = 0), "weight");
        assert_eq!(refused(|d| d.delivery.envelope = Envelope::Json), "delivery.envelope");
        assert_eq!(refused(|d| d.idempotency_window_ms = 10), "idempotency_window_ms");
        assert_eq!(refused(|d| d.idempotency_keys_max = 0), "idempotency_keys_max");
        assert_eq!(refused(|d| d.sources_max = 16_385), "sources_max");
        let header = |name: &str, value: &str| {
            let entry = (name.to_owned(), value.to_owned());
            refused(|d| d.headers = [entry].into())
        };
        assert_eq!(header("reseq-id", "1"), "headers");
        assert_eq!(header("a b", "1"), "headers");
        for name in ["Host", "expect", "TE", "Upgrade", "content-length", "Transfer-Encoding"] {
            assert_eq!(header(name, "1"), "headers", "{name}");
        }
        assert_eq!(header("x-a", "1\r\nx-b: 2"), "headers");
        assert_eq!(header("authorization", MASK), "headers");
    }

    #[test]
    fn without_a_receiver_nothing_of_one_is_given() {
        let queue = |change: fn(&mut Destination)| {
            let mut queue = Destination { url: None, ..erp() };
            (queue.delivery.kind, queue.transform.kind) =
                (DeliveryKind::None, TransformKind::Worker);
            change(&mut queue);
            queue.validate().map_err(|refused| refused.field)
        };
        assert_eq!(queue(|_| {}), Ok(()));
        let pull = |d: &mut Destination| {
            (d.delivery.kind, d.transform.kind) = (DeliveryKind::Pull, TransformKind::None);
            (d.delivery.attempts_max, d.delivery.timeout_ms) = (3, 1_000);
        };
        assert_eq!(queue(pull), Ok(()));
        let batch = |d: &mut Destination| {
            (d.delivery.kind, d.delivery.batch_max) = (DeliveryKind::Pull, 2);
        };
        assert_eq!(queue(batch), Err("delivery.batch_max"));
        assert_eq!(queue(|d| d.url = Some("http://h/".into())), Err("url"));
        let secret = |d: &mut Destination| d.headers = [("a".into(), "b".into())].into();
        assert_eq!(queue(secret), Err("headers"));
        assert_eq!(queue(|d| d.delivery.attempts_max = 3), Err("delivery.attempts_max"));
        assert_eq!(queue(|d| d.delivery.ack = crate::Ack::None), Err("delivery.ack"));
        assert_eq!(queue(|d| d.transform.kind = TransformKind::None), Err("delivery.kind"));
    }

    #[test]
    fn what_arrives_is_checked_and_named() {
        assert_eq!(refused(|d| d.forward_headers = ForwardHeaders::new(["*"])), "forward_headers");
        let header = |name: &str| Some(KeySource::Header(name.to_owned()));
        let jq = |expression: &str| Some(KeySource::Jq(expression.to_owned()));
        assert_eq!(refused(|d| d.key_from = header("a b")), "key_from.header");
        assert_eq!(refused(|d| d.key_from = jq(".a |")), "key_from.jq");
        let both = |d: &mut Destination| {
            (d.key_from, d.idempotency_key_from) = (jq(".a"), header(""));
        };
        assert_eq!(refused(both), "idempotency_key_from.header");
        assert_eq!(refused(|d| d.key_from = header("Authorization")), "key_from.header");
        let verifies = |change: fn(&mut Destination)| {
            refused(|d| {
                let fields =
                    "kind = \"hmac\"\nsecrets = [\"0123456789abcdef\"]\nheader = \"X-Proof\"";
                d.verify = Some(toml::from_str(fields).unwrap());
                change(d);
            })
        };
        let own = |d: &mut Destination| d.forward_headers = ForwardHeaders::new(["x-proof"]);
        assert_eq!(verifies(own), "forward_headers");
        let proof = |d: &mut Destination| d.key_from = Some(KeySource::Header("x-proof".into()));
        assert_eq!(verifies(proof), "key_from.header");
        assert_eq!(refused(|d| d.idempotency_key_from = jq("$body")), "idempotency_key_from.jq");
    }

    #[test]
    fn credentials_in_a_stored_definition_have_no_effect() {
        let stored = Destination {
            forward_headers: ForwardHeaders::new(["auth*", "cookie", "x-*"]),
            key_from: Some(KeySource::Header("Cookie".into())),
            ..erp()
        };
        assert_eq!(stored.ignored_field(), Some("forward_headers"));
        assert!(stored.forwards("x-tenant") && !stored.has_key_sources());
        for name in ["authorization", "cookie", "proxy-authorization", "x-hub-signature-256"] {
            assert!(!stored.forwards(name), "{name}");
        }
        assert_eq!(erp().ignored_field(), None);
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
