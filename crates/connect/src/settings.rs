//! The configuration file. An error names the field.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use client::{Header, Service, Unusable};
use serde::Deserialize;
use tls::Pem;

/// The most sources of one process.
const SOURCES_MAX: usize = 64;
/// The most destinations of one source.
const DESTINATIONS_MAX: usize = 100;
/// The most bytes of a file with a secret or a certificate.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The whole file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub reseq: Reseq,
    #[serde(default)]
    pub http: Http,
    #[serde(default)]
    pub log: Log,
    #[serde(rename = "source")]
    pub sources: Vec<SourceSettings>,
}

/// Where the service is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reseq {
    url: String,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    certificate_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
}

/// The listener for health and metrics.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    pub listen: SocketAddr,
}

impl Default for Http {
    fn default() -> Http {
        Http { listen: SocketAddr::from(([127, 0, 0, 1], 9464)) }
    }
}

/// The log.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    pub level: String,
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Log {
        Log { level: "info".to_owned(), format: LogFormat::Json }
    }
}

/// The form of a line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Json,
    Text,
}

/// What to do with a message that Reseq refuses for good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnRefused {
    /// Wait until somebody has changed the destination, or has moved its mark.
    #[default]
    Halt,
    /// Go on without it.
    Skip,
}

/// One source and where its messages go.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSettings {
    pub name: String,
    pub destinations: Vec<String>,
    #[serde(default)]
    pub on_refused: OnRefused,
    /// The kind of the source.
    #[cfg(feature = "postgres")]
    pub postgres: Option<crate::postgres::Settings>,
}

impl Settings {
    /// Reads and checks the file.
    pub fn read(path: &Path) -> anyhow::Result<Settings> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        let settings: Settings =
            toml::from_str(&text).with_context(|| path.display().to_string())?;
        settings.check().with_context(|| path.display().to_string())?;
        Ok(settings)
    }

    fn check(&self) -> anyhow::Result<()> {
        let count = self.sources.len();
        ensure!((1..=SOURCES_MAX).contains(&count), "source: {count}; must be 1 to {SOURCES_MAX}");
        telemetry::check_level(&self.log.level).map_err(anyhow::Error::msg)?;
        for (index, source) in self.sources.iter().enumerate() {
            let name = &source.name;
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            if name.is_empty() || name.len() > 64 || !name.bytes().all(is_name) {
                bail!("source.name: {name:?}; must be 1 to 64 letters, digits, - _ .");
            }
            let is_twice = self.sources[..index].iter().any(|other| other.name == *name);
            ensure!(!is_twice, "source.name: {name:?} is there twice");
            let count = source.destinations.len();
            ensure!(
                (1..=DESTINATIONS_MAX).contains(&count),
                "source.{name}.destinations: {count}; must be 1 to {DESTINATIONS_MAX}"
            );
            for (at, destination) in source.destinations.iter().enumerate() {
                let problem = || format!("source.{name}.destinations: {destination:?}");
                destination.parse::<domain::DestinationName>().with_context(problem)?;
                let is_twice = source.destinations[..at].contains(destination);
                ensure!(!is_twice, "{} is there twice", problem());
            }
            source.check_kind()?;
            #[cfg(feature = "postgres")]
            if let Some(own) = &source.postgres {
                let mut others = self.sources[..index].iter();
                let has_it = |other: &&SourceSettings| {
                    other.postgres.as_ref().is_some_and(|other| other.has_slot_of(own))
                };
                if let Some(other) = others.find(has_it) {
                    let (slot, other) = (&own.slot, &other.name);
                    bail!("source.{name}.postgres.slot: {slot:?} is also that of source {other}");
                }
            }
        }
        self.reseq.service()?;
        Ok(())
    }
}

impl SourceSettings {
    fn check_kind(&self) -> anyhow::Result<()> {
        let name = &self.name;
        #[cfg(feature = "postgres")]
        if let Some(postgres) = &self.postgres {
            return postgres.check(self).with_context(|| format!("source.{name}.postgres"));
        }
        bail!("source.{name}: has no kind; add a section [source.postgres]")
    }

    /// The source itself.
    pub fn open(&self) -> anyhow::Result<Box<dyn crate::source::Source>> {
        #[cfg(feature = "postgres")]
        if let Some(postgres) = &self.postgres {
            let source = crate::postgres::Postgres::new(&self.name, postgres)?;
            return Ok(Box::new(source));
        }
        bail!("source.{}: has no kind", self.name)
    }
}

impl Reseq {
    /// A client of the service.
    pub fn service(&self) -> anyhow::Result<Service> {
        let file = |field: &str, path: &Option<PathBuf>| match path {
            Some(path) => content(field, path).map(Some),
            None => Ok(None),
        };
        let certificate = file("reseq.certificate_file", &self.certificate_file)?;
        let key = file("reseq.key_file", &self.key_file)?;
        ensure!(
            certificate.is_some() == key.is_some(),
            "reseq.certificate_file, reseq.key_file: one of them is missing"
        );
        let pem = Pem { ca: file("reseq.ca_file", &self.ca_file)?, identity: certificate.zip(key) };
        let mut headers = Vec::new();
        if let Some(path) = &self.token_file {
            let token = secret("reseq.token_file", path)?;
            let problem = "reseq.token_file: has characters that no token has";
            headers.push(Header::bearer(&token).context(problem)?);
        }
        Service::at(&self.url, &headers, &pem).map_err(|error| match error {
            Unusable::Url => anyhow::anyhow!("reseq.url: {error}"),
            Unusable::Ca => anyhow::anyhow!("reseq.ca_file: {error}"),
            Unusable::Identity => anyhow::anyhow!("reseq.certificate_file: {error}"),
            Unusable::Client(error) => error.into(),
        })
    }
}

fn content(field: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    let problem = || format!("{field}: {} cannot be read", path.display());
    let length = std::fs::metadata(path).with_context(problem)?.len();
    ensure!(length <= FILE_BYTES_MAX, "{field}: {} is too long", path.display());
    std::fs::read(path).with_context(problem)
}

/// The secret in a file, without the line break at its end.
pub fn secret(field: &str, path: &Path) -> anyhow::Result<String> {
    let text = String::from_utf8(content(field, path)?).ok();
    let text = text.with_context(|| format!("{field}: {} is not text", path.display()))?;
    let text = text.trim_end_matches(['\n', '\r']).to_owned();
    ensure!(!text.is_empty(), "{field}: {} is empty", path.display());
    Ok(text)
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    /// The first block of TOML of a page.
    fn example(page: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
        let text = std::fs::read_to_string(path).unwrap();
        let block = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        // Tests have no secrets.
        let lines = block.lines().map(str::trim).filter(|line| !line.contains("_file ="));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn read(text: &str) -> anyhow::Result<Settings> {
        let settings: Settings = toml::from_str(text)?;
        settings.check()?;
        Ok(settings)
    }

    #[test]
    fn examples_of_the_documentation_are_read() {
        let settings = read(&example("reference/connect.md")).unwrap();
        assert_eq!(settings.sources[0].on_refused, OnRefused::Halt);
        assert_eq!(settings.http.listen.port(), 9464);
        read(&example("how-to/send-webhooks-from-your-outbox.md")).unwrap();
    }

    #[test]
    fn wrong_field_is_refused_by_name() {
        let good = example("reference/connect.md");
        for (from, to, problem) in [
            ("http://127.0.0.1:8080", "127.0.0.1", "reseq.url: not a URL"),
            (
                "[reseq]",
                "[reseq]\ntoken_file = \"/none\"",
                "reseq.token_file: /none cannot be read",
            ),
            ("[\"erp\"]", "[]", "source.orders.destinations: 0; must be 1"),
            ("[\"erp\"]", "[\"erp\", \"crm\"]", "columns.destination: is missing"),
            ("[\"erp\"]", "[\"a b\"]", "source.orders.destinations: \"a b\""),
            ("\"reseq\"\npub", "\"Re seq\"\npub", "source.orders.postgres: slot: \"Re seq\""),
            ("public.outbox", "outbox", "table: \"outbox\"; write it with its schema"),
            ("slot =", "confirm_delay_ms = 5\nslot =", "confirm_delay_ms: 5; must be 1000"),
            ("slot =", "slots =", "slots"),
            ("[source.postgres]", "[source.kafka]", "kafka"),
            ("\"orders\"", "\"or/ders\"", "source.name: \"or/ders\""),
        ] {
            assert!(good.contains(from), "{from}");
            let told = format!("{:#}", read(&good.replacen(from, to, 1)).unwrap_err());
            assert!(told.contains(problem), "{problem} is not in: {told}");
        }
        let source = good[good.find("[[source]]").unwrap()..].replacen("orders", "bills", 1);
        let told = format!("{:#}", read(&format!("{good}\n{source}")).unwrap_err());
        assert_eq!(told, "source.bills.postgres.slot: \"reseq\" is also that of source orders");
        read(&format!("{good}\n{}", source.replacen("\"reseq\"\npub", "\"bills\"\npub", 1)))
            .unwrap();
    }
}
