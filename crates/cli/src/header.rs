//! `--header`: a header of every request, for a proxy in front of the service.

use std::{ffi::OsStr, fmt};

use clap::{
    Arg, Command,
    builder::TypedValueParser,
    error::{Error, ErrorKind},
};
use reqwest::{
    RequestBuilder,
    header::{HeaderName, HeaderValue},
};

/// A header. Its value is a secret, and is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    name: HeaderName,
    value: HeaderValue,
}

impl Header {
    /// Reads `Name: value`.
    fn parse(text: &str) -> Option<Header> {
        let (name, value) = text.split_once(':')?;
        let name = name.trim().parse().ok()?;
        let mut value: HeaderValue = value.trim().parse().ok()?;
        value.set_sensitive(true);
        Some(Header { name, value })
    }

    /// The header of a token.
    pub fn bearer(token: &str) -> Option<Header> {
        Header::parse(&format!("Authorization: Bearer {token}"))
    }

    /// Adds it to a request.
    pub fn add_to(&self, request: RequestBuilder) -> RequestBuilder {
        request.header(&self.name, &self.value)
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ***", self.name)
    }
}

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
    fn a_header_has_a_name_and_a_value_that_is_not_shown() {
        let header = Header::parse("Authorization: Bearer a:b ").unwrap();
        assert_eq!(header.value, "Bearer a:b");
        assert_eq!(format!("{header:?}"), "authorization: ***");
        for wrong in ["", "Authorization", ": x", "a b: c", "x: a\nb"] {
            assert_eq!(Header::parse(wrong), None, "{wrong:?}");
        }
        let command = Command::new("reseq");
        let error = HeaderParser.parse_ref(&command, None, "Bearer secret".as_ref()).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
