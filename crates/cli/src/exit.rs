//! The exit codes of all commands.

use std::process::ExitCode;

use super::{bulk::Ended, output::OutputClosed, usage::WrongUsage};
use client::{Refused, Unreachable};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success.
    Ok = 0,
    /// An error without its own code.
    Error = 1,
    /// Wrong arguments. The parser of the arguments uses it too.
    Usage = 2,
    /// The service refused the request, or the operation failed, was cancelled or was interrupted.
    Refused = 3,
    /// The service cannot be reached.
    Unreachable = 4,
    /// `status --check`: lanes are halted, or data is damaged. `doctor`: it found errors.
    Unhealthy = 5,
    /// `repair`: it found inconsistent data, repaired or not.
    Found = 6,
    /// `doctor`: it found warnings, but no errors.
    Warnings = 7,
    /// `verify`: the order did not hold, or messages are missing.
    Violated = 8,
}

/// The exit codes, at the end of `reseq --help`.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  another error
  2  wrong arguments
  3  the service refused the request, or the operation failed, was cancelled or was interrupted
  4  the service cannot be reached
  5  status --check: lanes are halted, or data is damaged or cannot be read; doctor found errors
  6  repair found something
  7  doctor found warnings, and no errors; or it could not make a check
  8  verify: the order did not hold, or messages are missing";

impl Exit {
    /// The exit code of an error.
    pub fn of(error: &anyhow::Error) -> Exit {
        // The reader of the output has closed it (`| head`).
        if error.is::<OutputClosed>() {
            return Exit::Ok;
        }
        let is_caused_by = |exit| {
            error.chain().any(|cause| match exit {
                Exit::Usage => cause.is::<WrongUsage>(),
                Exit::Refused => cause.is::<Refused>() || cause.is::<Ended>(),
                Exit::Unreachable => cause.is::<Unreachable>(),
                _ => false,
            })
        };
        let exits = [Exit::Usage, Exit::Refused, Exit::Unreachable];
        exits.into_iter().find(|exit| is_caused_by(*exit)).unwrap_or(Exit::Error)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;
    use client::Problem;

    #[test]
    fn the_cause_of_an_error_decides_the_exit_code() {
        let refused = || Refused { problem: Problem::default(), object: String::new() };
        let usage: anyhow::Error = WrongUsage("no".into()).into();
        assert_eq!(Exit::of(&anyhow!("anything")), Exit::Error);
        assert_eq!(Exit::of(&usage), Exit::Usage);
        assert_eq!(Exit::of(&refused().into()), Exit::Refused);
        let inside = Err::<(), _>(refused()).context("line 3").context("sending").unwrap_err();
        assert_eq!(Exit::of(&inside), Exit::Refused);
        assert_eq!(Exit::of(&OutputClosed.into()), Exit::Ok);
    }

    #[test]
    fn the_help_lists_every_exit_code() {
        for exit in [
            Exit::Ok,
            Exit::Error,
            Exit::Usage,
            Exit::Refused,
            Exit::Unreachable,
            Exit::Unhealthy,
            Exit::Found,
            Exit::Warnings,
            Exit::Violated,
        ] {
            assert!(EXIT_CODES.contains(&format!("\n  {}  ", exit as u8)), "{exit:?}");
        }
        let wrong = clap::Command::new("reseq").try_get_matches_from(["reseq", "--no"]);
        assert_eq!(wrong.unwrap_err().exit_code(), Exit::Usage as i32);
    }
}
