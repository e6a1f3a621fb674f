//! `reseq.example.toml` shows every field with its default. This checks it against the code.

use std::path::Path;

use config::{Config, EMBEDDED, Redis};
use domain::Destination;

/// Alternatives to the defaults, which the example shows commented out.
const ALTERNATIVES: [&str; 11] = [
    "# kind = \"http\"",
    "# url = \"http://127.0.0.1:9002/\"",
    "# name = \"...\"",
    "# headers = { authorization = \"Bearer ...\" }",
    "# kind = \"jq\"",
    "# expression = \"{ order: .number, tenant: $headers[\\\"x-tenant\\\"] }\"",
    "# sign = { secrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"] }",
    "# verify = { kind = \"github\", secrets = [\"It's a Secret to Everybody\"] }",
    "# key_from = { jq = \".data.customer\" }",
    "# idempotency_key_from = { header = \"x-event-id\" }",
    "# shards = 1",
];

/// The example with its commented-out fields enabled, except these lines.
fn example_without(left_out: &[&str]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("reseq.example.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let in_force = text.lines().filter(|line| !left_out.contains(line)).map(|line| {
        let field = line.strip_prefix("# ").filter(|rest| {
            rest.split_once(" = ").is_some_and(|(name, _)| {
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            })
        });
        field.unwrap_or(line)
    });
    in_force.collect::<Vec<_>>().join("\n")
}

fn load(text: &str) -> Config {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Config::load(Some(file.path()), []).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_field_is_shown_with_its_default() {
    let text = example_without(&ALTERNATIVES);
    let shown: toml::Table = toml::from_str(&text).unwrap();
    let config = load(&text);
    // The example is complete: the loaded configuration, written out in full, is the example
    // itself.
    assert_eq!(toml::Table::try_from(&config).unwrap(), shown);

    let destination = &config.destinations[0];
    let default =
        Destination::new(destination.name.clone(), destination.url.clone().unwrap_or_default());
    assert_eq!(*destination, default);
    let expected = Config {
        outgoing: config.outgoing.clone(),
        destinations: config.destinations.clone(),
        topics: config.topics.clone(),
        tcp: config.tcp.clone(),
        redis: Redis { url: EMBEDDED.into(), ..Redis::default() },
        ..Config::default()
    };
    assert_eq!(toml::Table::try_from(&expected).unwrap(), shown);
}

#[test]
fn the_alternatives_shown_are_valid() {
    let [http, url, name, _, jq, expression, ..] = ALTERNATIVES;
    let config = load(&example_without(&["kind = \"none\"", name, jq, expression]));
    let destination = &config.destinations[0];
    assert!(destination.transform.url.is_some());
    assert!(!destination.headers.is_empty() && !destination.transform.headers.is_empty());
    assert!(destination.sign.is_some() && destination.verify.is_some());
    assert!(destination.key_from.is_some() && destination.idempotency_key_from.is_some());
    let config = load(&example_without(&["kind = \"none\"", http, url, name]));
    assert!(config.destinations[0].transform.expression.is_some());
}
