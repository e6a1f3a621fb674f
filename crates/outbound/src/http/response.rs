//! Parses answers: the content encoding, a refusal as text, and the time to wait.

use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use reqwest::{
    Response, StatusCode, Version,
    header::{self, HeaderMap},
};

use time::{
    OffsetDateTime,
    format_description::well_known::{Rfc2822, Rfc3339},
};

use domain::excerpt::excerpt;
use domain::{attempts::DETAIL_BYTES_MAX, wait_in_units};

/// Reseq reads at most this many bytes of an answer only to reuse its connection.
const DRAIN_BYTES_MAX: u64 = 64 * 1024;

/// The content encoding of an answer, if any. Reseq asks for none and decodes none.
pub fn content_encoding(answer: &Response) -> Option<String> {
    let value = answer.headers().get(header::CONTENT_ENCODING)?;
    let shown = excerpt(value.as_bytes());
    (!shown.trim().is_empty() && !shown.trim().eq_ignore_ascii_case("identity")).then_some(shown)
}

/// True if only the end of the connection ends the body. A truncated body then looks complete.
pub fn ends_with_connection(answer: &Response) -> bool {
    answer.version() < Version::HTTP_2
        && answer.content_length().is_none()
        && !answer.headers().contains_key(header::TRANSFER_ENCODING)
}

/// A refusing status, as text.
pub fn refusal(status: StatusCode) -> String {
    if status.is_redirection() {
        return format!("status {} (redirects are not followed)", status.as_u16());
    }
    format!("status {}", status.as_u16())
}

/// The time to wait from `Retry-After`: seconds or a date (RFC 9110, 10.2.3), also in the formats
/// of RFC 5322 and RFC 3339. A past date means no wait; an unreadable value counts as absent.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    wait_in_units(text, Duration::from_secs(1)).or_else(|| {
        let other = || {
            let date = OffsetDateTime::parse(text, &Rfc2822);
            date.or_else(|_| OffsetDateTime::parse(text, &Rfc3339)).ok().map(SystemTime::from)
        };
        let date = httpdate::parse_http_date(text).ok().or_else(other)?;
        Some(date.duration_since(now).unwrap_or_default())
    })
}

/// A refusing status with the beginning of the body, to be stored with the message. Then reads the
/// rest as [`drain`] does.
pub async fn refusal_in_full(answer: Response) -> String {
    let status = refusal(answer.status());
    let said = excerpt_of(answer, DETAIL_BYTES_MAX).await;
    if said.is_empty() { status } else { format!("{status}: {said}") }
}

/// The beginning of an answer's body as text, at most `bytes_max`. If the body breaks off, returns the part received.
async fn excerpt_of(mut answer: Response, bytes_max: usize) -> String {
    let mut body = BytesMut::new();
    while body.len() < bytes_max
        && let Ok(Some(chunk)) = answer.chunk().await
    {
        let room = bytes_max - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
    if body.len() == bytes_max {
        drain(answer).await;
    }
    String::from_utf8_lossy(&body).trim().to_owned()
}

/// Reads the rest of an answer so that its connection can be reused. If the rest is long, closes
/// the connection instead.
pub async fn drain(mut answer: Response) {
    let mut left = DRAIN_BYTES_MAX;
    if answer.content_length().is_some_and(|announced| announced > left) {
        return;
    }
    while let Ok(Some(chunk)) = answer.chunk().await {
        left = left.saturating_sub(chunk.len() as u64);
        if left == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let read = |text: &'static str| {
            let headers = [(header::RETRY_AFTER, HeaderValue::from_static(text))];
            retry_after(&headers.into_iter().collect(), now).map(|wait| wait.as_secs())
        };
        assert_eq!(read("120"), Some(120));
        assert_eq!(read("Sun, 06 Nov 1994 08:50:07 GMT"), Some(30));
        assert_eq!(read("Sunday, 06-Nov-94 08:50:07 GMT"), Some(30));
        assert_eq!(read("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
        assert_eq!(read("Sun, 06 Nov 1994 08:50:07 +0000"), Some(30));
        assert_eq!(read("06 Nov 1994 09:50:07 +0100"), Some(30));
        assert_eq!(read("1994-11-06T08:50:07Z"), Some(30));
        assert_eq!(read("1.5"), Some(1));
        assert_eq!(read("99999999999999999999999"), Some(u64::MAX));
        for unreadable in ["", "soon", "-1"] {
            assert_eq!(read(unreadable), None, "{unreadable}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
