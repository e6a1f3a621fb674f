//! The variables that Kubernetes sets for Services.
//!
//! For a Service `reseq-redis`, every container in its namespace gets the variables below. Their
//! names begin like the variables of Reseq:
//!
//! ```text
//! RESEQ_REDIS_SERVICE_HOST=10.0.0.11
//! RESEQ_REDIS_SERVICE_PORT=6379
//! RESEQ_REDIS_SERVICE_PORT_<PORT'S NAME>=6379
//! RESEQ_REDIS_PORT=tcp://10.0.0.11:6379
//! RESEQ_REDIS_PORT_6379_TCP=tcp://10.0.0.11:6379
//! RESEQ_REDIS_PORT_6379_TCP_PROTO=tcp          and _PORT=6379, _ADDR=10.0.0.11
//! ```
//!
//! <https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables>

/// True if Kubernetes set this variable for a Service. Checks the value too, so that Reseq still
/// refuses a misspelled variable of its own.
pub(super) fn is_of_a_service(name: &str, value: &str) -> bool {
    let is_number = |text: &str| text.parse::<u16>().is_ok();
    let is_url = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    if name.ends_with("_SERVICE_HOST") {
        return value.parse::<std::net::IpAddr>().is_ok();
    }
    if name.ends_with("_SERVICE_PORT") || name.contains("_SERVICE_PORT_") {
        return is_number(value);
    }
    if name.ends_with("_PORT") && is_url {
        return true;
    }
    let Some((_, port)) = name.split_once("_PORT_") else { return false };
    let mut parts = port.split('_');
    let is_port = parts.next().is_some_and(is_number);
    let is_protocol = parts.next().is_some_and(|part| ["TCP", "UDP", "SCTP"].contains(&part));
    let is_detail = match parts.next() {
        None => is_url,
        Some("PROTO" | "PORT" | "ADDR") => parts.next().is_none(),
        Some(_) => false,
    };
    is_port && is_protocol && is_detail
}

#[cfg(test)]
mod tests {
    use super::is_of_a_service;

    #[test]
    fn variables_of_services_are_told_from_misspelled_fields() {
        let of_services = [
            ("RESEQ_SERVICE_HOST", "10.0.0.11"),
            ("RESEQ_SERVICE_HOST", "fd00::11"),
            ("RESEQ_SERVICE_PORT", "8080"),
            ("RESEQ_SERVICE_PORT_HTTP_ADMIN", "9090"),
            ("RESEQ_PORT", "tcp://10.0.0.11:8080"),
            ("RESEQ_PORT_8080_TCP", "tcp://10.0.0.11:8080"),
            ("RESEQ_PORT_8080_TCP_PROTO", "tcp"),
            ("RESEQ_PORT_8080_TCP_PORT", "8080"),
            ("RESEQ_PORT_8080_TCP_ADDR", "10.0.0.11"),
            ("RESEQ_REDIS_PORT", "tcp://10.0.0.11:6379"),
            ("RESEQ_REDIS_PORT_6379_TCP_ADDR", "10.0.0.11"),
            ("RESEQ_REDIS_SERVICE_HOST", "10.0.0.11"),
            ("RESEQ_DNS_PORT_53_UDP", "udp://10.0.0.10:53"),
        ];
        for (name, value) in of_services {
            assert!(is_of_a_service(name, value), "{name}={value}");
        }
        let others = [
            ("RESEQ_PORT", "8080"),
            ("RESEQ_HTTP_PORT", "8080"),
            ("RESEQ_SERVICE_HOST", "redis"),
            ("RESEQ_SERVICE_PORT", "http"),
            ("RESEQ_PORT_8080", "tcp://10.0.0.11:8080"),
            ("RESEQ_PORT_8080_TLS", "tcp://10.0.0.11:8080"),
            ("RESEQ_PORT_8080_TCP", "8080"),
            ("RESEQ_PORT_8080_TCP_ADDR_MAX", "1"),
            ("RESEQ_PORT_HTTP_TCP_ADDR", "10.0.0.11"),
            ("RESEQ_REDIS_URL", "tcp://10.0.0.11:6379"),
        ];
        for (name, value) in others {
            assert!(!is_of_a_service(name, value), "{name}={value}");
        }
    }
}
