//! The configuration file, the environment, and definitions of destinations and topics.

use config::Config;
use domain::{Destination, Topic, destination::MASK};
use outbound::outgoing::{Outgoing, OutgoingError};

/// The line between the file and the environment.
const ENVIRONMENT: &str = "\n---\n";

/// A configuration file. After a line `---`, the environment, one variable per line.
pub fn configuration(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let (file, environment) = text.split_once(ENVIRONMENT).unwrap_or((text, ""));
    let variables = environment.lines().filter_map(|line| line.split_once('='));
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let Ok(config) = Config::parse(file, variables) else { return };
    // The text form of an accepted configuration means the same.
    let text = toml::to_string(&config).unwrap();
    let again = Config::parse(&text, []).unwrap();
    assert_eq!(toml::to_string(&again).unwrap(), text);
    // `Debug` may reach the log, so it must not show secrets.
    let debug = format!("{config:?}");
    for secret in [config.auth.admin_token.as_str(), &config.redis.sentinel_password] {
        assert!(secret.len() < 16 || !debug.contains(secret), "{debug}");
    }
}

/// The definition of a destination, or of a topic.
pub fn definitions(input: &[u8]) {
    if let Ok(topic) = serde_json::from_slice::<Topic>(input)
        && topic.validate().is_ok()
    {
        let json = serde_json::to_vec(&topic).unwrap();
        assert_eq!(serde_json::from_slice::<Topic>(&json).unwrap(), topic);
    }
    let Ok(destination) = serde_json::from_slice::<Destination>(input) else { return };
    if destination.validate().is_err() {
        return;
    }
    let json = serde_json::to_vec(&destination).unwrap();
    assert_eq!(serde_json::from_slice::<Destination>(&json).unwrap(), destination);
    let outgoing = Outgoing::new(Vec::new());
    for (field, url) in destination.urls() {
        let checked = outgoing.check_without_lookup(url);
        assert!(!matches!(checked, Err(OutgoingError::NoHost)), "{field}: {url}");
    }
    let mut masked = destination.masked();
    assert!(masked.secrets_mut().iter().all(|(_, secret)| *secret == MASK));
}
