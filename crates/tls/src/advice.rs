//! Advice about certificates that are not accepted. The TLS library names only the kind of error.

/// Parts of the library's errors, and the advice for each.
const KNOWN: [(&str, &str); 4] = [
    (
        "CaUsedAsEndEntity",
        "the server shows the certificate of an authority (CA:TRUE), as openssl req -x509 makes it: give it one with \
         basicConstraints=CA:FALSE",
    ),
    (
        "UnknownIssuer",
        "no authority that is trusted here has signed it: name the one that did as CA file",
    ),
    ("NotValidForName", "it is not for this host: use a host name that is in the certificate"),
    ("Expired", "it has ended: renew it, or correct the clock of this machine"),
];

/// The text of a connection error, with advice if there is any.
pub fn explained(error: String) -> String {
    match advice(&error) {
        Some(advice) => format!("{error}; {advice}"),
        None => error,
    }
}

/// The advice for this connection error, if it concerns a certificate.
pub fn advice(error: &str) -> Option<&'static str> {
    let found = KNOWN.iter().find(|(part, _)| error.contains(part));
    found.filter(|_| error.contains("invalid peer certificate")).map(|(_, advice)| *advice)
}
