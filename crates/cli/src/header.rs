//! `--header`: a header of every request, for a proxy in front of the service.

use std::ffi::OsStr;

use clap::{
    Arg, Command,
    builder::TypedValueParser,
    error::{Error, ErrorKind},
};

use client::Header;

/// Parses the option. Unlike the usual parsers, it does not quote the value in its error.
#[derive(Debug, Clone)]
pub struct HeaderParser;

impl TypedValueParser for HeaderParser {
    type Value = Header;

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Header, Error> {
        let header = value.to_str().and_then(Header::parse);
        header.ok_or_else(|| {
            let problem = "--header and RESEQ_HEADER: write 'Name: value'\n";
            Error::raw(ErrorKind::ValueValidation, problem).with_cmd(command)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_of_a_wrong_header_is_not_shown() {
        let command = Command::new("reseq");
        let error = HeaderParser.parse_ref(&command, None, "Bearer secret".as_ref()).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
