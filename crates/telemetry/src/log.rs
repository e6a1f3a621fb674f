//! Starts the log, and changes its filter while it runs.

use std::{io::IsTerminal, time::Duration};

use tracing_subscriber::{EnvFilter, fmt::format};

use super::{
    failures::{Failures, RECEIVERS, TRANSFORMS, WORKERS},
    log_limit::Limit,
    one_line::{Format, OneLine},
};

/// How often the log checks for kinds of lines whose minute is over.
const SUM_UP_EVERY: Duration = Duration::from_secs(5);

/// The facts about this process that every line of the log shows.
#[derive(Debug, Clone)]
pub struct Process {
    /// The name of the pod in the list of pods.
    pub pod: String,
    /// The roles of the pod, separated by commas.
    pub roles: String,
}

/// The filter of the log, such as `info,reseq=debug`. The variable `RESEQ_LOG` replaces `level`.
fn filter_of(level: &str) -> Result<EnvFilter, String> {
    let variable = std::env::var("RESEQ_LOG").ok().filter(|text| !text.is_empty());
    let (field, text) = match &variable {
        Some(text) => ("RESEQ_LOG", text.as_str()),
        None => ("log.level", level),
    };
    EnvFilter::builder().parse(text).map_err(|error| {
        format!(
            "{field}: {text:?} is no log filter ({error}); use a level such as info, warn or debug"
        )
    })
}

/// Checks a level of the log. An error names the field.
pub fn check_level(level: &str) -> Result<(), String> {
    filter_of(level).map(drop)
}

/// The log of this process.
pub struct Log {
    set: Box<dyn Fn(EnvFilter) + Send + Sync>,
    limit: Limit,
}

impl Log {
    /// Uses this level from now on. An error names the field.
    pub fn set(&self, level: &str) -> Result<(), String> {
        filter_of(level).map(|filter| (self.set)(filter))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        sum_up(&self.limit, true);
    }
}

/// For each kind of line whose minute is over, writes how many lines were left out, and how many attempts failed. The
/// log then writes lines of this kind again.
fn sum_up(limit: &Limit, is_end: bool) {
    limit.sum_up(is_end);
    [&*RECEIVERS, &*TRANSFORMS, &*WORKERS].into_iter().for_each(Failures::sum_up);
}

/// Calls `sum_up` every few seconds, while the process runs.
async fn sum_up_often(limit: Limit) {
    let mut ticks = tokio::time::interval(SUM_UP_EVERY);
    loop {
        ticks.tick().await;
        sum_up(&limit, false);
    }
}

/// Starts the log to standard error, as text or as JSON, in a runtime of Tokio. If a level cannot be used, the error
/// names its field.
pub fn install_log(is_json: bool, level: &str, process: Process) -> Result<Log, String> {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let has_colours = std::io::stderr().is_terminal() && !is_plain;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter_of(level)?)
        .with_ansi(has_colours)
        .with_writer(std::io::stderr);
    let limit = Limit::default();
    let lines = |format| OneLine::new(format, &process, limit.clone());
    // A program that embeds Reseq as a library may already have installed a log.
    macro_rules! start {
        ($log:expr) => {{
            let log = $log.with_filter_reloading();
            let handle = log.reload_handle();
            let _ = log.try_init();
            Box::new(move |filter| drop(handle.reload(filter)))
        }};
    }
    let set: Box<dyn Fn(EnvFilter) + Send + Sync> = match is_json {
        true => {
            let json = format().json().flatten_event(true);
            let json = json.with_current_span(false).with_span_list(false);
            start!(log.json().event_format(lines(Format::Json(json))))
        }
        false => {
            let text = Format::Text { format: format().with_ansi(has_colours), has_colours };
            start!(log.event_format(lines(text)))
        }
    };
    tokio::spawn(sum_up_often(limit.clone()));
    Ok(Log { set, limit })
}
