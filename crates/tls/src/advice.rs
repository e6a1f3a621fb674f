//! What to do about certificates that are not accepted: the library only names the kind of error.

/// Parts of its errors, and what to do.
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

/// An error of a connection, with what to do about it if that is known.
pub fn explained(error: String) -> String {
    match advice(&error) {
        Some(advice) => format!("{error}; {advice}"),
        None => error,
    }
}

/// What to do about this error of a connection, if it is about a certificate.
pub fn advice(error: &str) -> Option<&'static str> {
    let found = KNOWN.iter().find(|(part, _)| error.contains(part));
    found.filter(|_| error.contains("invalid peer certificate")).map(|(_, advice)| *advice)
}
