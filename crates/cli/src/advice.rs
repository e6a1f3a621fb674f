//! Advice for errors of libraries that do not say what to do.

/// A sentence with advice for this error, on its own line; empty if there is none.
pub fn about(error: &str) -> String {
    let fits = |part: &str| error.contains(part);
    let no_tls = "the server may speak no TLS at this port: if so, write";
    let advice = if let Some(advice) = tls::advice(error) {
        advice.to_owned()
    } else if fits("rediss://")
        && ["timed out", "in time", "InvalidContentType"].into_iter().any(fits)
    {
        format!("{no_tls} redis:// in place of rediss://")
    } else if fits("InvalidContentType") {
        format!("{no_tls} http:// in place of https://")
    } else {
        return String::new();
    };
    format!("\n  {advice}")
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
        assert_eq!(about("the token is Expired"), "");
    }
}
