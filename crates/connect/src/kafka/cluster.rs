//! The section `[kafka]`: how all sources and sinks of the file reach the brokers.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, bail, ensure};
use krafka::{
    Kafka, KrafkaError,
    auth::{AuthConfig, TlsConfig},
    error::ErrorCode,
};
use serde::Deserialize;
use tls::Pem;

use crate::{
    settings::{client_tls, secret, yes},
    source::Fault,
};

/// A client reads the metadata of the cluster again after this time. After an error, it reads them at once.
pub const AGE_MAX: Duration = Duration::from_secs(60);

/// The brokers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    brokers: Vec<String>,
    #[serde(default = "yes")]
    tls: bool,
    ca_file: Option<PathBuf>,
    certificate_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    username: Option<String>,
    password_file: Option<PathBuf>,
    #[serde(default)]
    mechanism: Mechanism,
}

/// The SASL mechanism with which the user authenticates.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mechanism {
    Plain,
    ScramSha256,
    #[default]
    ScramSha512,
}

impl Cluster {
    /// Checks the section. An error names the field.
    pub fn check(&self) -> anyhow::Result<()> {
        let is_address = |broker: &String| {
            let port = broker.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            port.is_some() && !broker.contains([',', ' '])
        };
        ensure!(
            !self.brokers.is_empty() && self.brokers.iter().all(is_address),
            "brokers: {:?}; must be a list of HOST:PORT",
            self.brokers
        );
        self.auth().map(drop)
    }

    fn auth(&self) -> anyhow::Result<AuthConfig> {
        let auth = match (&self.username, &self.password_file) {
            (None, None) => AuthConfig::plaintext(),
            (Some(user), Some(path)) => {
                let password = secret("password_file", path)?;
                match self.mechanism {
                    Mechanism::Plain => {
                        ensure!(self.tls, "mechanism: \"plain\" needs tls = true");
                        AuthConfig::sasl_plain(user, password)
                    }
                    Mechanism::ScramSha256 => AuthConfig::sasl_scram_sha256(user, password),
                    Mechanism::ScramSha512 => AuthConfig::sasl_scram_sha512(user, password),
                }
            }
            _ => bail!("username, password_file: one of them is missing"),
        };
        let files = client_tls(&self.ca_file, &self.certificate_file, &self.key_file);
        let Pem { ca, identity } = Pem::read("kafka", &files)?;
        if !self.tls {
            return Ok(auth);
        }
        let mut tls = TlsConfig::new().with_native_roots();
        if let Some(ca) = ca {
            tls = tls.with_ca_cert_pem(ca);
        }
        if let Some((certificate, key)) = identity {
            tls = tls.with_client_cert_pem(certificate, key);
        }
        Ok(auth.with_tls(tls))
    }

    /// Creates a client. It reads the metadata of the cluster again when they are older than `age_max`. Reads the files
    /// of secrets and certificates again, because they may have changed.
    pub async fn connect(&self, age_max: Duration) -> Result<Kafka, Fault> {
        let auth = self.auth().context("kafka");
        let auth = auth.map_err(|error| Fault::Halted(format!("{error:#}")))?;
        let kafka = Kafka::builder(self.brokers.join(","))
            .client_id("reseq-connect")
            .security(auth)
            .metadata_max_age(age_max)
            .allow_auto_create_topics(false);
        Ok(kafka.connect().await?)
    }
}

/// Converts an error of Kafka into the fault of a source or a sink.
impl From<KrafkaError> for Fault {
    fn from(error: KrafkaError) -> Fault {
        let text = match &error {
            KrafkaError::UnknownTopic { topic } => format!("topic {topic} does not exist"),
            error => format!("Kafka: {error}"),
        };
        let is_for_somebody = match &error {
            KrafkaError::Auth { .. }
            | KrafkaError::Config { .. }
            | KrafkaError::UnknownTopic { .. } => true,
            KrafkaError::Broker { code, .. } => matches!(
                code,
                ErrorCode::TopicAuthorizationFailed
                    | ErrorCode::GroupAuthorizationFailed
                    | ErrorCode::ClusterAuthorizationFailed
                    | ErrorCode::InvalidSessionTimeout
                    | ErrorCode::UnknownTopicOrPartition
            ),
            // A damaged batch stays damaged.
            KrafkaError::Protocol { .. } | KrafkaError::Compression { .. } => !error.is_retriable(),
            _ => false,
        };
        match is_for_somebody {
            true => Fault::Halted(text),
            false => Fault::Later(text),
        }
    }
}
