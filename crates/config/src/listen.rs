//! The place where a listener accepts connections: an address or a name, and a port.

use std::{fmt, net::SocketAddr, str::FromStr};

use serde::{Deserialize, Serialize};

/// An address or a name, and a port: `127.0.0.1:8080`, `[::]:8080`, `localhost:8080`. Reseq
/// resolves a name at the start, and listens on all its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Listen {
    host: String,
    port: u16,
}

/// The text is not a place to listen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an address or a name with a port, such as 127.0.0.1:8080, [::]:8080 or localhost:8080"
)]
pub struct InvalidListen(String);

impl Listen {
    /// The address or name, without brackets, and the port.
    pub fn parts(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// The port; 0 takes a free port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Listen {
    type Err = InvalidListen;

    fn from_str(text: &str) -> Result<Listen, InvalidListen> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let invalid = || InvalidListen(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let is_name = !host.is_empty()
            && host.len() <= 253
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
            // A text of only digits and dots must be a valid address.
            && !host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_name && is_number).ok_or_else(invalid)?;
        Ok(Listen { host: host.to_owned(), port })
    }
}

impl TryFrom<String> for Listen {
    type Error = InvalidListen;

    fn try_from(text: String) -> Result<Listen, InvalidListen> {
        text.parse()
    }
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Listen {
        Listen { host: address.ip().to_string(), port: address.port() }
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> String {
        listen.to_string()
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Listen { host, port } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}"),
            false => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_with_a_port_are_places_to_listen() {
        for text in
            ["127.0.0.1:8080", "[::]:0", "[::1]:443", "localhost:8080", "reseq-0.pods.example:1"]
        {
            let listen: Listen = text.parse().unwrap();
            assert_eq!(listen.to_string(), text);
        }
        assert_eq!("[::1]:443".parse::<Listen>().unwrap().parts(), ("::1", 443));
        for text in [
            "",
            "localhost",
            ":8080",
            "localhost:",
            "localhost:x",
            "localhost:+1",
            "localhost:65536",
            "::1:8080",
            "[::1]",
            "[localhost]:1",
            "a b:1",
            "http://a:1",
            "1.2.3:80",
            "256.0.0.1:80",
            "127.0.0.1",
            "a/b:1",
        ] {
            let error = text.parse::<Listen>().unwrap_err().to_string();
            assert!(error.contains("localhost:8080"), "{text}: {error}");
        }
    }
}
