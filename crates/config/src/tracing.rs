//! Traces, which are sent to an OpenTelemetry collector.

use serde::{Deserialize, Serialize};

use super::{ConfigError, invalid};

/// Traces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tracing {
    /// The base URL of an OTLP receiver over HTTP. Empty: no traces.
    pub otlp_endpoint: String,
    /// The share of the messages without `traceparent` that are traced, 0 to 1. A message with
    /// `traceparent` is traced if that header says so.
    pub sample_ratio: f64,
}

impl Default for Tracing {
    fn default() -> Self {
        Tracing { otlp_endpoint: String::new(), sample_ratio: 0.01 }
    }
}

impl Tracing {
    /// True if spans are recorded.
    pub fn is_on(&self) -> bool {
        !self.otlp_endpoint.is_empty()
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            let problem = format!("{} is outside 0 to 1", self.sample_ratio);
            return Err(invalid("tracing.sample_ratio", problem));
        }
        if !self.is_on() {
            return Ok(());
        }
        let is_http = url::Url::parse(&self.otlp_endpoint)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !is_http {
            let problem = "is no URL of an OTLP receiver over HTTP, such as http://collector:4318";
            return Err(invalid("tracing.otlp_endpoint", problem.into()));
        }
        Ok(())
    }
}
