//! A header that each request gets, such as a token, or a header for a proxy in front of the service.

use std::fmt;

use reqwest::{
    RequestBuilder,
    header::{HeaderName, HeaderValue},
};

/// A header. Its value is a secret, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    name: HeaderName,
    value: HeaderValue,
}

impl Header {
    /// Reads `Name: value`.
    pub fn parse(text: &str) -> Option<Header> {
        let (name, value) = text.split_once(':')?;
        let name = name.trim().parse().ok()?;
        let mut value: HeaderValue = value.trim().parse().ok()?;
        value.set_sensitive(true);
        Some(Header { name, value })
    }

    /// The header for a token.
    pub fn bearer(token: &str) -> Option<Header> {
        Header::parse(&format!("Authorization: Bearer {token}"))
    }

    /// Adds the header to a request.
    pub fn add_to(&self, request: RequestBuilder) -> RequestBuilder {
        request.header(&self.name, &self.value)
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ***", self.name)
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
    }
}
