//! The HTTP client of the commands.

use std::{fmt, ops::Deref, time::Duration};

use anyhow::Context;
use reqwest::{Client, Method, Response, header};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

/// Time limit of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Time limit of calls that may process everything that a destination holds.
const LONG_ANSWER_MAX: Duration = Duration::from_secs(3600);

/// A running Reseq service.
pub struct Service {
    client: Client,
    base: String,
}

/// A problem from the service (RFC 9457): the fields for display and retries.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The stable code.
    pub code: String,
    /// What is wrong, as text.
    pub detail: String,
}

impl Problem {
    /// True if a retry may succeed.
    pub fn is_temporary(&self) -> bool {
        matches!(self.status, 429 | 503)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { status, code, detail } = self;
        match (code.is_empty(), detail.is_empty()) {
            (true, true) => write!(f, "status {status}"),
            (true, false) => write!(f, "{detail} (status {status})"),
            (false, _) => write!(f, "{detail} ({code}, status {status})"),
        }
    }
}

/// An unsuccessful answer.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct Refused {
    /// The parsed problem.
    pub problem: Problem,
    /// The original text.
    pub object: String,
}

/// A successful answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The original text: a parsed value loses numbers of more than some 16 digits.
    pub text: String,
    value: Value,
}

impl Deref for Answer {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl Service {
    /// The service at this URL.
    pub fn at(url: &str) -> anyhow::Result<Service> {
        let parsed = reqwest::Url::parse(url).ok();
        let is_http = parsed.is_some_and(|url| matches!(url.scheme(), "http" | "https"));
        anyhow::ensure!(is_http, "{url:?} is not a URL of the service: write http://host:port");
        let client = Client::builder().tcp_nodelay(true).timeout(ANSWER_MAX).build()?;
        Ok(Service { client, base: url.trim_end_matches('/').to_owned() })
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// GETs a value; `None` for a 404.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<Option<T>> {
        let answer = self.client.get(format!("{}{path}", self.base)).send().await;
        let answer = answer.with_context(|| format!("{} does not answer", self.base))?;
        if answer.status() == reqwest::StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !answer.status().is_success() {
            anyhow::bail!("GET {path}: {}", problem(answer).await);
        }
        let value = answer.json().await;
        Ok(Some(value.with_context(|| format!("GET {path}: the answer is not what was expected"))?))
    }

    /// Makes a call, with a JSON body if given, and parses the answer. A problem becomes the error.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        // Calls that process many messages take long.
        request = request.timeout(LONG_ANSWER_MAX);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await;
        let answer = answer.with_context(|| format!("{} does not answer", self.base))?;
        if !answer.status().is_success() {
            let status = answer.status().as_u16();
            let object = answer.text().await.unwrap_or_default();
            return Err(Refused { problem: problem_in(status, &object), object }.into());
        }
        let unexpected = || format!("{path}: the answer is not what was expected");
        let text = answer.text().await.with_context(unexpected)?;
        let value = serde_json::from_str(&text).with_context(unexpected)?;
        Ok(Answer { text, value })
    }

    /// POSTs a body.
    pub async fn post(
        &self,
        path: &str,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> reqwest::Result<Response> {
        let request = self.client.post(format!("{}{path}", self.base));
        request.header(header::CONTENT_TYPE, content_type).body(body).send().await
    }
}

/// Parses the problem of an unsuccessful answer; any other text becomes its detail.
pub async fn problem(answer: Response) -> Problem {
    let status = answer.status().as_u16();
    problem_in(status, &answer.text().await.unwrap_or_default())
}

fn problem_in(status: u16, text: &str) -> Problem {
    let read = serde_json::from_str(text);
    let detail = || text.to_owned();
    let mut problem = read.unwrap_or_else(|_| Problem { detail: detail(), ..Problem::default() });
    problem.status = status;
    problem
}

/// The wait in seconds that the answer asks for.
pub fn retry_after(answer: &Response) -> Option<Duration> {
    let text = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}
