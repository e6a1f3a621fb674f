//! Applies the environment to the configuration of the file.

use std::collections::HashMap;

use toml::Value;

use super::{Config, ConfigError, kubernetes, secrets::read_secret};
use domain::nearest::nearest;

/// The prefix of all variables.
pub(super) const PREFIX: &str = "RESEQ_";
/// Fields with a secret. The variable of a field, with `_FILE` appended, names a file with the secret.
const SECRETS: [&str; 3] = ["redis_url", "redis_sentinel_password", "secrets_key"];

/// Variables that are not fields: `RESEQ_CONFIG` names the file, `RESEQ_LOG` the log filter, `RESEQ_URL` the service
/// for client commands, `RESEQ_HEADER` a header of their requests, `RESEQ_TOKEN` their token, `RESEQ_CA_FILE`,
/// `RESEQ_CERTIFICATE_FILE` and `RESEQ_KEY_FILE` their certificates, `RESEQ_JQ_RUNNER` the program that runs `jq`
/// expressions. Reseq sets `RESEQ_JQ_CHILD` for a runner. `RESEQ_BIN` and `RESEQ_SRC` name the program
/// and its source for scripts around it. The remaining variables inject faults in test builds.
const OTHERS: &[&str] = &[
    "RESEQ_CONFIG",
    "RESEQ_LOG",
    "RESEQ_URL",
    "RESEQ_HEADER",
    "RESEQ_TOKEN",
    "RESEQ_CA_FILE",
    "RESEQ_CERTIFICATE_FILE",
    "RESEQ_KEY_FILE",
    "RESEQ_JQ_RUNNER",
    "RESEQ_JQ_CHILD",
    "RESEQ_BIN",
    "RESEQ_SRC",
    "RESEQ_CLIENT",
    #[cfg(feature = "pause-points")]
    "RESEQ_PAUSE_SOCKET",
    #[cfg(feature = "planted-bugs")]
    "RESEQ_PLANTED_BUG",
    #[cfg(feature = "planted-bugs")]
    "RESEQ_PLANTED_SCRIPTS",
    #[cfg(feature = "next-schema")]
    "RESEQ_NEXT_SCHEMA",
    #[cfg(feature = "next-schema")]
    "RESEQ_TEST_REDIS_SERVER",
];

/// The variable of `tracing.otlp_endpoint`.
const OTLP_ENDPOINT: &str = "RESEQ_TRACING_OTLP_ENDPOINT";

pub(super) fn environment(
    config: Config,
    variables: HashMap<String, String>,
) -> Result<Config, ConfigError> {
    let invalid =
        |name: &str, problem: String| ConfigError::InvalidVariable { name: name.into(), problem };
    let mut whole = Value::try_from(&config)
        .map_err(|error| invalid(PREFIX, format!("the configuration has no text form: {error}")))?;
    let variables = of_opentelemetry(variables);
    for (name, text) in &variables {
        let is_field = name.starts_with(PREFIX)
            && !OTHERS.contains(&name.as_str())
            && !kubernetes::is_of_a_service(name, text);
        if !is_field {
            continue;
        }
        let mut path = name[PREFIX.len()..].to_lowercase();
        let mut text = text.clone();
        if let Some(field) = path.strip_suffix("_file").filter(|field| SECRETS.contains(field)) {
            let other = name.trim_end_matches("_FILE");
            if variables.contains_key(other) {
                return Err(invalid(name, format!("{other} is set too; leave one out")));
            }
            text = read_secret(text.as_ref()).map_err(|problem| invalid(name, problem))?;
            path = field.to_owned();
        }
        let known = leaves(&whole);
        let Some(leaf) = leaf(&mut whole, &path) else {
            let nearest = nearest(&path, known.iter().map(String::as_str)).unwrap_or_default();
            let nearest = nearest.to_uppercase();
            let problem = format!("no such field exists; did you mean {PREFIX}{nearest}?");
            return Err(invalid(name, problem));
        };
        *leaf = match leaf {
            Value::Integer(_) => Value::Integer(
                text.parse().map_err(|_| invalid(name, format!("{text:?} is not a number")))?,
            ),
            Value::Boolean(_) => Value::Boolean(
                text.parse()
                    .map_err(|_| invalid(name, format!("{text:?} is neither true nor false")))?,
            ),
            Value::Float(_) => Value::Float(
                text.parse().map_err(|_| invalid(name, format!("{text:?} is not a number")))?,
            ),
            _ => Value::String(text),
        };
        Config::deserialize_value(&whole)
            .map_err(|error| invalid(name, error.to_string().trim().to_owned()))?;
    }
    Config::deserialize_value(&whole).map_err(|error| invalid(PREFIX, error.to_string()))
}

/// Reads the endpoint from the variable of OpenTelemetry too. The variable of Reseq has priority.
fn of_opentelemetry(mut variables: HashMap<String, String>) -> HashMap<String, String> {
    if let Some(endpoint) = variables.remove("OTEL_EXPORTER_OTLP_ENDPOINT") {
        variables.entry(OTLP_ENDPOINT.to_owned()).or_insert(endpoint);
    }
    variables
}

impl Config {
    fn deserialize_value(value: &Value) -> Result<Config, toml::de::Error> {
        value.clone().try_into()
    }
}

/// The paths of all plain fields, joined with `_`.
fn leaves(value: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    for (name, inner) in value.as_table().into_iter().flatten() {
        match inner {
            Value::Table(_) => {
                paths.extend(leaves(inner).into_iter().map(|rest| format!("{name}_{rest}")));
            }
            Value::Array(_) => {}
            _ => paths.push(name.clone()),
        }
    }
    paths
}

/// The plain field whose path, joined with `_`, is `path`.
fn leaf<'v>(value: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    for (name, inner) in value.as_table_mut()?.iter_mut() {
        if name == path && !inner.is_table() && !inner.is_array() {
            return Some(inner);
        }
        let rest = path.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('_'));
        if let (Some(rest), true) = (rest, inner.is_table()) {
            return leaf(inner, rest);
        }
    }
    None
}
