//! What to do about errors of libraries that do not say it.

/// Parts of such errors, and what to do.
const KNOWN: [(&str, &str); 5] = [
    (
        "CaUsedAsEndEntity",
        "the server shows the certificate of an authority (CA:TRUE), as `openssl req -x509` makes it. Give the server \
         a certificate with basicConstraints=CA:FALSE, and name the authority that signed it as the CA file; a \
         certificate that signed itself is its own CA file",
    ),
    (
        "UnknownIssuer",
        "nobody trusted here has signed the certificate of the server: name the authority that did, with --ca-file, or \
         in the field ca_file of redis.tls or outgoing.tls",
    ),
    (
        "NotValidForName",
        "the certificate of the server is for another host: write a host name that is in it",
    ),
    (
        "rediss://",
        "the server may speak no TLS at this port: if so, write redis:// in place of rediss://",
    ),
    (
        "InvalidContentType",
        "the server may speak no TLS at this port: if so, write http:// in place of https://",
    ),
];

/// A sentence for this error; empty if there is none.
pub fn about(error: &str) -> String {
    let fits = |part: &str| error.contains(part);
    let found = KNOWN.iter().find(|(part, _)| {
        // This may have many reasons. Only with a time-out it is likely that TLS is one.
        fits(part) && (*part != "rediss://" || fits("timed out") || fits("in time"))
    });
    found.map(|(_, advice)| format!("\n  {advice}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::about;

    #[test]
    fn known_errors_have_advice_and_others_none() {
        let tls = "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))";
        assert!(about(tls).contains("basicConstraints=CA:FALSE"));
        assert!(about("Redis at rediss://h:1 cannot be reached: timed out").contains("no TLS"));
        assert_eq!(about("Redis at rediss://h:1 cannot be reached: refused"), "");
    }
}
