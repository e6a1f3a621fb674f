//! Runs a bulk operation: a purge, a redrive, a discard, a replay, or a retry of all heads.
//!
//! The service answers when the operation is done, or after two seconds. Then the command reads its
//! progress every second until it ends. The operation goes on if the command ends.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::StatusCode;
use serde_json::Value;

use super::{
    client_args::ClientArgs,
    output::{Output, count_of, plain, quoted, text_of, write_out},
};
use client::{Answer, Call, Refused, Service, Unreachable, paths::path_of, problem_of};

/// How long the service may wait for the end before it answers.
const WAIT: &str = "wait=2";
/// How often to read the progress.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// How long to continue after a temporary failure.
pub const LOST_MAX: Duration = Duration::from_secs(30);

/// The options of a bulk command.
#[derive(Debug, Clone, Args)]
pub struct BulkArgs {
    /// Do not wait for the end; print the operation
    #[arg(long)]
    pub detach: bool,
}

/// The option of bulk commands that make work for processors and receivers.
#[derive(Debug, Clone, Args)]
pub struct RateArgs {
    /// The most messages per second; as fast as possible if left out
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
}

impl RateArgs {
    /// Adds the rate to the request.
    pub fn add_to(&self, request: &mut Value) {
        if let Some(rate) = self.rate {
            request["rate_per_second"] = rate.into();
        }
    }
}

/// The error for an operation that did not succeed.
#[derive(Debug, thiserror::Error)]
#[error("the operation {id} {state} after {affected} of {matched}{reason}")]
pub struct Ended {
    id: String,
    state: String,
    affected: u64,
    matched: u64,
    reason: String,
}

impl Ended {
    /// The error for this operation, unless it succeeded.
    fn of(operation: &Value) -> Option<Ended> {
        let reason = match (text_of(operation, "state").as_str(), &operation["problem"]["detail"]) {
            ("succeeded", _) => return None,
            ("failed", Value::String(detail)) => format!(": {}", plain(detail)),
            ("interrupted", _) => ": its process ended; run the command again for the rest".into(),
            _ => String::new(),
        };
        Some(Ended {
            id: text_of(operation, "id"),
            state: match text_of(operation, "state").as_str() {
                "failed" => "failed".to_owned(),
                state => format!("was {state}"),
            },
            affected: count_of(operation, "affected"),
            matched: count_of(operation, "matched"),
            reason,
        })
    }
}

/// Starts the operation, waits for its end, and prints it. `words` makes the text for an operation that succeeded.
pub async fn run(
    client: &ClientArgs,
    args: &BulkArgs,
    destination: &str,
    route: &str,
    body: &Value,
    words: impl FnOnce(&Answer) -> String,
) -> anyhow::Result<()> {
    match until_end(client, args, destination, route, body).await? {
        Some(ended) => client.print(&ended, words),
        None => Ok(()),
    }
}

/// Starts the operation and waits for its end. `None`: the user does not wait. The operation continues, and is printed.
pub async fn until_end(
    client: &ClientArgs,
    args: &BulkArgs,
    destination: &str,
    route: &str,
    body: &Value,
) -> anyhow::Result<Option<Answer>> {
    let (service, path) = (client.service()?, path_of(destination, route));
    let bulk = Bulk { service: &service, destination, poll_every: POLL_EVERY };
    if args.detach {
        let started = service.call(Call::post(&path, body).prefer("respond-async")).await;
        client.print_problem(&started)?;
        client.print(&started?, |operation| goes_on(destination, operation))?;
        return Ok(None);
    }
    let mut operation = None;
    let ended = tokio::select! {
        ended = bulk.until_end(&path, body, &mut operation) => ended,
        signal = tokio::signal::ctrl_c() => {
            signal?;
            anyhow::bail!("{}", interrupted(destination, operation.as_deref()));
        }
    };
    client.print_problem(&ended)?;
    let ended = ended.map_err(stopped)?;
    if let Some(failure) = Ended::of(&ended) {
        if client.output != Output::Table {
            write_out(&client.output.render(&ended.text)?)?;
        }
        return Err(failure.into());
    }
    Ok(Some(ended))
}

/// A destination with a running operation.
struct Bulk<'a> {
    service: &'a Service,
    destination: &'a str,
    poll_every: Duration,
}

impl Bulk<'_> {
    /// Starts the operation and waits for its end. Puts its id into `id` as soon as it is known.
    async fn until_end(
        &self,
        path: &str,
        body: &Value,
        id: &mut Option<String>,
    ) -> anyhow::Result<Answer> {
        let mut operation = self.service.call(Call::post(path, body).prefer(WAIT)).await?;
        if operation.status != StatusCode::ACCEPTED {
            return Ok(operation);
        }
        let started = text_of(&operation, "id");
        let path = path_of(self.destination, &format!("operations/{started}"));
        *id = Some(started);
        let bar = progress_bar();
        let mut lost: Option<Instant> = None;
        while operation["state"] == "running" {
            bar.set_message(progress(&operation));
            bar.tick();
            tokio::time::sleep(self.poll_every).await;
            match self.service.call(Call::get(&path)).await {
                Ok(read) => (operation, lost) = (read, None),
                // The operation may run in a process other than the one that does not answer.
                Err(error) if is_temporary(&error) => {
                    let since = *lost.get_or_insert_with(Instant::now);
                    if since.elapsed() > LOST_MAX {
                        let id = text_of(&operation, "id");
                        let text = format!("the operation {id} may go on");
                        return Err(error.context(text));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        bar.finish_and_clear();
        Ok(operation)
    }
}

/// True if the same request may succeed later.
pub fn is_temporary(error: &anyhow::Error) -> bool {
    error.is::<Unreachable>() || problem_of(error).is_some_and(|problem| problem.is_temporary())
}

/// A progress line on standard error, only on a terminal.
pub fn progress_bar() -> ProgressBar {
    let bar = match std::io::stderr().is_terminal() {
        true => ProgressBar::new_spinner(),
        false => ProgressBar::hidden(),
    };
    // The template is a constant; an invalid one would fall back to the default style.
    let style = ProgressStyle::with_template("{spinner} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

fn progress(operation: &Value) -> String {
    let (affected, matched) = (count_of(operation, "affected"), count_of(operation, "matched"));
    let text = format!("{}: {affected} of {matched}", text_of(operation, "kind"));
    match count_of(operation, "failed") {
        0 => text,
        failed => format!("{text}, {failed} failed"),
    }
}

/// The text for an operation that continues without this command.
fn goes_on(destination: &str, operation: &Value) -> String {
    let (id, state) = (text_of(operation, "id"), text_of(operation, "state"));
    format!("operation {id} is {state}; reseq operations show {destination} {id}")
}

/// The text after Ctrl-C: how to cancel or find the operation.
fn interrupted(destination: &str, id: Option<&str>) -> String {
    let destination = quoted(destination);
    match id {
        Some(id) => {
            format!(
                "the operation goes on; to cancel it: reseq operations cancel {destination} {id}"
            )
        }
        None => format!("the operation may go on; to find it: reseq operations list {destination}"),
    }
}

/// Adds to a refusal how far the operation had come, if it had begun.
fn stopped(error: anyhow::Error) -> anyhow::Error {
    let begun = error.downcast_ref::<Refused>().and_then(|refused| {
        let object: Value = serde_json::from_str(&refused.object).ok()?;
        let operation = object.get("operation")?;
        let (affected, matched) = (count_of(operation, "affected"), count_of(operation, "matched"));
        let id = text_of(operation, "id");
        Some(format!("the operation {id} stopped after {affected} of {matched}"))
    });
    match begun {
        Some(begun) => error.context(begun),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::{
        Router,
        extract::State,
        http::HeaderMap,
        response::{IntoResponse, Response},
        routing::{get, post},
    };
    use serde_json::json;

    use super::*;
    use crate::exit::Exit;
    use tls::Pem;

    /// A service whose operation gives these answers, one after the other, and what it was asked.
    #[derive(Clone, Default)]
    struct Fake {
        answers: Arc<Mutex<Vec<(u16, Value)>>>,
        prefer: Arc<Mutex<Vec<String>>>,
    }

    impl Fake {
        fn next(&self) -> Response {
            let (status, answer) = self.answers.lock().unwrap().remove(0);
            (StatusCode::from_u16(status).unwrap(), answer.to_string()).into_response()
        }
    }

    async fn start(State(fake): State<Fake>, headers: HeaderMap) -> Response {
        let prefer = headers["prefer"].to_str().unwrap().to_owned();
        fake.prefer.lock().unwrap().push(prefer);
        fake.next()
    }

    fn operation(state: &str, affected: u64) -> Value {
        json!({"id": "7", "kind": "purge", "state": state, "affected": affected, "matched": 9})
    }

    /// Purges, and returns the end and the id that was known.
    async fn purge(answers: Vec<(u16, Value)>) -> (anyhow::Result<Answer>, Option<String>) {
        let fake = Fake { answers: Arc::new(Mutex::new(answers)), ..Fake::default() };
        let show = |State(fake): State<Fake>| async move { fake.next() };
        let routes = Router::new()
            .route("/v1/destinations/erp/purge", post(start))
            .route("/v1/destinations/erp/operations/7", get(show))
            .with_state(fake.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, routes).into_future());
        let service = Service::at(&url, &[], &Pem::default()).unwrap();
        let poll_every = Duration::from_millis(1);
        let bulk = Bulk { service: &service, destination: "erp", poll_every };
        let mut id = None;
        let ended = bulk.until_end("/v1/destinations/erp/purge", &json!({}), &mut id).await;
        assert_eq!(*fake.prefer.lock().unwrap(), ["wait=2"]);
        assert!(fake.answers.lock().unwrap().is_empty(), "not all answers were asked for");
        (ended, id)
    }

    #[tokio::test]
    async fn a_long_operation_is_watched_until_its_end() {
        let gone = json!({"code": "redis_unavailable", "detail": "gone", "status": 503});
        let (ended, id) = purge(vec![
            (202, operation("running", 1)),
            (200, operation("running", 5)),
            (503, gone),
            (200, operation("succeeded", 9)),
        ])
        .await;
        assert_eq!((ended.unwrap()["affected"].as_u64(), id.as_deref()), (Some(9), Some("7")));
        let (ended, id) = purge(vec![(200, operation("succeeded", 9))]).await;
        assert_eq!((ended.unwrap()["affected"].as_u64(), id), (Some(9), None));
    }

    #[tokio::test]
    async fn an_operation_that_fails_says_how_far_it_came() {
        let problem = json!({"code": "draining", "detail": "it stops", "status": 503,
            "operation": operation("interrupted", 3)});
        let (ended, _) = purge(vec![(503, problem)]).await;
        let error = stopped(ended.unwrap_err());
        let text = "the operation 7 stopped after 3 of 9: it stops (draining, status 503)";
        assert_eq!(format!("{error:#}"), text);
        assert_eq!(Exit::of(&error), Exit::Refused);

        let (ended, _) =
            purge(vec![(202, operation("running", 1)), (200, operation("cancelled", 4))]).await;
        let error = anyhow::Error::from(Ended::of(&ended.unwrap()).unwrap());
        assert_eq!(error.to_string(), "the operation 7 was cancelled after 4 of 9");
        assert_eq!(Exit::of(&error), Exit::Refused);
        let mut failed = operation("failed", 2);
        failed["problem"] = json!({"detail": "no memory"});
        let text = "the operation 7 failed after 2 of 9: no memory";
        assert_eq!(Ended::of(&failed).unwrap().to_string(), text);
        assert!(Ended::of(&operation("succeeded", 9)).is_none());
    }

    #[test]
    fn what_ctrl_c_leaves_behind_can_be_cancelled_or_found() {
        assert!(interrupted("erp", Some("7")).ends_with("reseq operations cancel erp 7"));
        assert!(interrupted("erp", None).ends_with("reseq operations list erp"));
    }
}
