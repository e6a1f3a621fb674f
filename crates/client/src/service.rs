//! Makes calls to the service, and parses its answers.

use std::{
    fmt,
    ops::Deref,
    time::{Duration, SystemTime},
};

use anyhow::Context;
use reqwest::{
    Certificate, Client, ClientBuilder, Identity, Method, RequestBuilder, Response, StatusCode,
    header, redirect,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{header::Header, plain};
use tls::Pem;

/// Time limit of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Time limit of calls that process all messages of a destination before they answer.
const LONG_ANSWER_MAX: Duration = Duration::from_secs(3600);
/// The most characters to show of an answer that is not a problem object.
const EXCERPT_MAX: usize = 200;

/// A URL or certificate that the client cannot use.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("not a URL of the service: write http://host:port")]
    Url,
    #[error("has no certificate in PEM")]
    Ca,
    #[error("no certificate and key in PEM")]
    Identity,
    #[error(transparent)]
    Client(#[from] reqwest::Error),
}

/// A running Reseq service.
#[derive(Debug)]
pub struct Service {
    client: Client,
    base: String,
    shown: String,
    headers: Vec<Header>,
}

/// Makes a client use these certificates for TLS.
fn with_certificates(mut client: ClientBuilder, pem: &Pem) -> Result<ClientBuilder, Unusable> {
    if let Some(ca) = &pem.ca {
        let roots = Certificate::from_pem_bundle(ca).ok().filter(|roots| !roots.is_empty());
        for root in roots.ok_or(Unusable::Ca)? {
            client = client.add_root_certificate(root);
        }
    }
    if let Some((certificate, key)) = &pem.identity {
        let pem = [certificate.as_slice(), b"\n", key].concat();
        let identity = Identity::from_pem(&pem);
        client = client.identity(identity.map_err(|_| Unusable::Identity)?);
    }
    Ok(client)
}

/// A problem from the service (RFC 9457): the fields for display and retries.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The stable code; empty if the answer is not from Reseq.
    pub code: String,
    /// The description of the problem.
    pub detail: String,
    /// With `source_gap`: the mark of the source at the destination, if there is one.
    pub mark: Option<String>,
}

impl Problem {
    /// True if a retry may succeed.
    pub fn is_temporary(&self) -> bool {
        matches!(self.status, 429 | 503)
    }

    /// True if a proxy answered because it cannot reach the service.
    fn is_from_proxy(&self) -> bool {
        self.code.is_empty() && matches!(self.status, 502..=504)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { status, code, .. } = self;
        let detail = plain(&self.detail);
        match (code.is_empty(), detail.is_empty()) {
            (true, true) => write!(f, "status {status}"),
            (true, false) => write!(f, "{detail} (status {status})"),
            (false, _) => write!(f, "{detail} ({code}, status {status})"),
        }
    }
}

/// The service refused a request.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct Refused {
    /// The parsed problem.
    pub problem: Problem,
    /// The original text.
    pub object: String,
}

/// The service gave no complete answer.
#[derive(Debug, thiserror::Error)]
#[error("{url} does not answer")]
pub struct Unreachable {
    url: String,
    #[source]
    cause: NoAnswer,
}

/// Why there was no complete answer.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error(transparent)]
    Transport(reqwest::Error),
    #[error("a proxy says: {0}")]
    Proxy(Problem),
}

/// A successful answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The original text: a parsed value would lose digits of long numbers.
    pub text: String,
    /// The HTTP status.
    pub status: StatusCode,
    value: Value,
}

impl Answer {
    /// Replaces a field.
    pub fn set(&mut self, field: &str, value: Value) {
        self.value[field] = value;
        self.text = self.value.to_string();
    }
}

impl Deref for Answer {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

/// A request with a JSON answer.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    method: Method,
    path: &'a str,
    body: Option<&'a Value>,
    header: Option<(&'static str, &'a str)>,
    answer_max: Duration,
}

impl<'a> Call<'a> {
    fn new(method: Method, path: &'a str, body: Option<&'a Value>) -> Call<'a> {
        Call { method, path, body, header: None, answer_max: ANSWER_MAX }
    }

    /// A GET.
    pub fn get(path: &'a str) -> Call<'a> {
        Call::new(Method::GET, path, None)
    }

    /// A DELETE.
    pub fn delete(path: &'a str) -> Call<'a> {
        Call::new(Method::DELETE, path, None)
    }

    /// A POST of JSON.
    pub fn post(path: &'a str, body: &'a Value) -> Call<'a> {
        Call::new(Method::POST, path, Some(body))
    }

    /// A PUT of JSON.
    pub fn put(path: &'a str, body: &'a Value) -> Call<'a> {
        Call::new(Method::PUT, path, Some(body))
    }

    /// A PATCH of JSON.
    pub fn patch(path: &'a str, body: &'a Value) -> Call<'a> {
        Call::new(Method::PATCH, path, Some(body))
    }

    /// Adds this header `Prefer`.
    pub fn prefer(self, prefer: &'a str) -> Call<'a> {
        Call { header: Some(("prefer", prefer)), ..self }
    }

    /// Makes the service refuse the request if the object exists.
    pub fn creating(self) -> Call<'a> {
        Call { header: Some(("if-none-match", "*")), ..self }
    }

    /// Allows a long wait: the service answers when it has processed everything.
    pub fn long(self) -> Call<'a> {
        Call { answer_max: LONG_ANSWER_MAX, ..self }
    }
}

impl Service {
    /// The service at this URL, with these certificates in addition to those of the system. Every request gets these
    /// headers.
    pub fn at(url: &str, headers: &[Header], pem: &Pem) -> Result<Service, Unusable> {
        let parsed = reqwest::Url::parse(url).ok();
        let is_http = |url: &reqwest::Url| matches!(url.scheme(), "http" | "https");
        let mut parsed = parsed.filter(is_http).ok_or(Unusable::Url)?;
        // This URL is only for display: a password must not appear in errors. The calls cannot fail for http.
        let _ = parsed.set_password(None).and_then(|()| parsed.set_username(""));
        // Follow no redirect: it could send the headers elsewhere, and turn a POST into a GET.
        let client = Client::builder().redirect(redirect::Policy::none());
        let client =
            with_certificates(client.tcp_nodelay(true).timeout(ANSWER_MAX), pem)?.build()?;
        let [base, shown] = [url, parsed.as_str()].map(|url| url.trim_end_matches('/').to_owned());
        Ok(Service { client, base, shown, headers: headers.to_vec() })
    }

    /// The URL of the service, for display.
    pub fn url(&self) -> &str {
        &self.shown
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        self.headers.iter().fold(request, |request, header| header.add_to(request))
    }

    /// Makes a call, and parses the answer. A problem becomes the error.
    pub async fn call(&self, call: Call<'_>) -> anyhow::Result<Answer> {
        let path = call.path;
        let (status, text) = self.exchange(call).await?;
        let value = serde_json::from_str(&text)
            .with_context(|| format!("{path}: the answer is not what was expected"))?;
        Ok(Answer { text, status, value })
    }

    /// The status and the text of a successful answer.
    async fn exchange(&self, call: Call<'_>) -> anyhow::Result<(StatusCode, String)> {
        let mut request = self.request(call.method, call.path).timeout(call.answer_max);
        if let Some(body) = call.body {
            request = request.json(body);
        }
        if let Some((name, value)) = call.header {
            request = request.header(name, value);
        }
        let answer = request.send().await.map_err(|error| self.unreachable(error))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(self.refusal(answer).await);
        }
        let text = answer.text().await.map_err(|error| self.unreachable(error))?;
        Ok((status, text))
    }

    /// Reads a value with GET; `None` for a 404.
    pub async fn find<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<Option<T>> {
        let Some(text) = self.find_text(path).await? else { return Ok(None) };
        let value = serde_json::from_str(&text);
        Ok(Some(value.with_context(|| format!("{path}: the answer is not what was expected"))?))
    }

    /// Reads a text with GET; `None` for a 404.
    pub async fn find_text(&self, path: &str) -> anyhow::Result<Option<String>> {
        match self.exchange(Call::get(path)).await {
            Ok((_, text)) => Ok(Some(text)),
            Err(error) if problem_of(&error).is_some_and(|problem| problem.status == 404) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends a POST with a body of any type.
    pub async fn post(
        &self,
        path: &str,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<Response, Unreachable> {
        let request = self.request(Method::POST, path).header(header::CONTENT_TYPE, content_type);
        request.body(body).send().await.map_err(|error| self.unreachable(error))
    }

    /// Begins to read an answer with GET. The answer may last this long.
    pub async fn stream(&self, path: &str, max: Duration) -> anyhow::Result<Response> {
        let request = self.request(Method::GET, path).timeout(max);
        let answer = request.send().await.map_err(|error| self.unreachable(error))?;
        match answer.status().is_success() {
            true => Ok(answer),
            false => Err(self.refusal(answer).await),
        }
    }

    /// The error for a call without a complete answer.
    pub fn unreachable(&self, error: reqwest::Error) -> Unreachable {
        let cause = NoAnswer::Transport(error.without_url());
        Unreachable { url: self.shown.clone(), cause }
    }

    /// The error of an unsuccessful answer: [`Refused`], or [`Unreachable`] if a proxy sent it.
    pub async fn refusal(&self, answer: Response) -> anyhow::Error {
        let status = answer.status().as_u16();
        let location = answer.headers().get(header::LOCATION);
        let location = location.and_then(|location| location.to_str().ok()).map(str::to_owned);
        let is_readyz = answer.url().path().ends_with("/readyz");
        let object = answer.text().await.unwrap_or_default();
        let mut problem = problem_in(status, &object);
        if is_readyz && let Some((code, detail)) = unready(&object) {
            (problem.code, problem.detail) = (code.to_owned(), detail.to_owned());
        }
        if let (300..=399, Some(location)) = (status, location) {
            problem.detail = format!("it redirects to {location}: use that URL");
        }
        match problem.is_from_proxy() {
            true => {
                let cause = NoAnswer::Proxy(problem);
                Unreachable { url: self.shown.clone(), cause }.into()
            }
            false => Refused { problem, object }.into(),
        }
    }
}

/// The problem in an error, if the service refused a request.
pub fn problem_of(error: &anyhow::Error) -> Option<&Problem> {
    Some(&error.downcast_ref::<Refused>()?.problem)
}

/// The code and the sentence with which `/readyz` says that a process is not ready; `None` if the text is from a proxy.
fn unready(text: &str) -> Option<(&str, &str)> {
    let (code, detail) = text.trim_end().split_once(": ")?;
    let is_code = code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    (is_code && !detail.contains('\n')).then_some((code, detail))
}

/// Parses the problem of an unsuccessful answer. The beginning of any other text becomes its detail.
fn problem_in(status: u16, text: &str) -> Problem {
    let excerpt = || {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        words.chars().take(EXCERPT_MAX).collect()
    };
    let read = serde_json::from_str(text);
    let mut problem = read.unwrap_or_else(|_| Problem { detail: excerpt(), ..Problem::default() });
    problem.status = status;
    problem
}

/// The wait that the answer asks for.
pub fn retry_after(answer: &Response) -> Option<Duration> {
    outbound::http::retry_after(answer.headers(), SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_something_else_is_shown_in_short() {
        let problem =
            problem_in(403, &format!("<h1>\n  Forbidden\n</h1>\u{1b}[2J{}", "x".repeat(999)));
        let shown = problem.to_string();
        assert!(shown.starts_with("<h1> Forbidden </h1>\\u{1b}[2J"), "{shown}");
        assert!(shown.ends_with("x (status 403)") && shown.len() < 300, "{shown}");
        assert!(problem_in(502, "Bad Gateway").is_from_proxy());
        let draining = r#"{"code": "draining", "detail": "stopping", "status": 503}"#;
        assert!(!problem_in(503, draining).is_from_proxy());
    }

    #[test]
    fn a_password_in_the_url_is_not_shown() {
        let service = Service::at("https://me:secret@host:1/reseq/", &[], &Pem::default()).unwrap();
        assert_eq!(service.url(), "https://host:1/reseq");
        assert_eq!(service.base, "https://me:secret@host:1/reseq");
        for wrong in ["host:1", "ftp://h", "", "secret"] {
            let error = Service::at(wrong, &[], &Pem::default()).unwrap_err();
            assert!(matches!(error, Unusable::Url), "{error}");
        }
    }
}
