//! The HTTP client of the service, which the command line and `reseq-connect` share.

pub mod batch;
mod header;
pub mod pages;
pub mod paths;
mod service;

use domain::excerpt::is_unsafe;

pub use header::Header;
pub use service::{
    Answer, Call, Problem, Refused, Service, Unreachable, Unusable, problem_of, retry_after,
};

/// Text from outside, such as a receiver's answer, without characters that could deceive on a terminal.
pub fn plain(text: &str) -> String {
    let escaped = |c: char| match is_unsafe(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escaped).collect()
}
