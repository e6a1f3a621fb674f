//! The configuration file. An error names the field.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use client::{Header, Service, Unusable};
use serde::Deserialize;
use tls::Pem;

use crate::{
    run::Launch,
    source::{Fault, Source},
};

/// The most sources and sinks of one process.
const SOURCES_MAX: usize = 64;
/// The most destinations of one source.
const DESTINATIONS_MAX: usize = 100;
/// The client of Kafka says at `info` what a source says itself.
const LEVEL: &str = "info,krafka=warn";
/// The most bytes of a file with a secret or a certificate.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The sources of a section, with their names in the log and the metrics.
pub type Sources = Vec<(String, Box<dyn Source>)>;

/// The whole file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub reseq: Reseq,
    #[cfg(feature = "kafka")]
    kafka: Option<crate::kafka::Cluster>,
    #[serde(default)]
    pub http: Http,
    #[serde(default)]
    pub log: Log,
    #[serde(default, rename = "source")]
    pub sources: Vec<SourceSettings>,
    #[cfg(feature = "kafka")]
    #[serde(default, rename = "sink")]
    sinks: Vec<crate::kafka::SinkSettings>,
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
#[serde(deny_unknown_fields, default)]
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
        Log { level: LEVEL.to_owned(), format: LogFormat::Json }
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
    #[cfg(feature = "kafka")]
    pub kafka: Option<crate::kafka::Settings>,
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
        #[cfg(feature = "kafka")]
        let count = count + self.check_kafka()?;
        ensure!((1..=SOURCES_MAX).contains(&count), "source: {count}; must be 1 to {SOURCES_MAX}");
        telemetry::check_level(&self.log.level).map_err(anyhow::Error::msg)?;
        for (index, source) in self.sources.iter().enumerate() {
            let name = &source.name;
            check_name("source.name", name)?;
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
            source.check_kind(self)?;
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

#[cfg(feature = "kafka")]
impl Settings {
    /// How to reach the brokers.
    fn kafka(&self) -> anyhow::Result<&crate::kafka::Cluster> {
        self.kafka.as_ref().context("kafka: is missing; add a section [kafka]")
    }

    /// The sinks, and where they write.
    pub fn sinks(
        &self,
    ) -> anyhow::Result<Vec<(&crate::kafka::SinkSettings, &crate::kafka::Cluster)>> {
        self.sinks.iter().map(|sink| Ok((sink, self.kafka()?))).collect()
    }

    /// The number of sinks.
    fn check_kafka(&self) -> anyhow::Result<usize> {
        if let Some(kafka) = &self.kafka {
            kafka.check().context("kafka")?;
        }
        for (index, sink) in self.sinks.iter().enumerate() {
            let name = &sink.name;
            check_name("sink.name", name)?;
            self.kafka()?;
            sink.check().with_context(|| format!("sink.{name}"))?;
            let others = self.sources.iter().map(|source| &source.name);
            let mut others = others.chain(self.sinks[..index].iter().map(|sink| &sink.name));
            ensure!(!others.any(|other| other == name), "sink.name: {name:?} is there twice");
        }
        Ok(self.sinks.len())
    }
}

fn check_name(field: &str, name: &str) -> anyhow::Result<()> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_good = (1..=64).contains(&name.len()) && name.bytes().all(is_name);
    ensure!(is_good, "{field}: {name:?}; must be 1 to 64 letters, digits, - _ .");
    Ok(())
}

impl SourceSettings {
    fn check_kind(&self, all: &Settings) -> anyhow::Result<()> {
        let (name, mut kinds) = (&self.name, 0);
        #[cfg(feature = "postgres")]
        if let Some(postgres) = &self.postgres {
            postgres.check(self).with_context(|| format!("source.{name}.postgres"))?;
            kinds += 1;
        }
        #[cfg(feature = "kafka")]
        if let Some(kafka) = &self.kafka {
            all.kafka()?;
            kafka.check(self.destinations.len()).with_context(|| format!("source.{name}.kafka"))?;
            kinds += 1;
        }
        let _ = all;
        ensure!(kinds == 1, "source.{name}: must have one section, such as [source.postgres]");
        Ok(())
    }

    /// The sources themselves, to ask them.
    pub async fn sources(&self, all: &Settings) -> anyhow::Result<Result<Sources, Fault>> {
        #[cfg(feature = "kafka")]
        if let Some(kafka) = &self.kafka {
            let topic = crate::kafka::Topic::new(&self.name, kafka, all.kafka()?);
            return Ok(topic.sources().await);
        }
        let _ = all;
        #[cfg(feature = "postgres")]
        if let Some(postgres) = &self.postgres {
            let source = crate::postgres::Postgres::new(&self.name, postgres)?;
            return Ok(Ok(vec![(self.name.clone(), Box::new(source))]));
        }
        bail!("source.{}: has no kind", self.name)
    }
}

impl Launch {
    /// Copies the sources of the section, until the process stops.
    pub async fn run(self, all: &Settings) -> anyhow::Result<()> {
        let section = &self.settings;
        #[cfg(feature = "kafka")]
        if let Some(kafka) = &section.kafka {
            let topic = crate::kafka::Topic::new(&section.name, kafka, all.kafka()?);
            let tasks = self.tasks.clone();
            tasks.spawn(topic.run(self));
            return Ok(());
        }
        for (label, source) in
            section.sources(all).await?.map_err(|fault| anyhow::anyhow!("{fault}"))?
        {
            self.start(label, source);
        }
        Ok(())
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

pub fn content(field: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
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
        block(page, 1)
    }

    /// A block of TOML of a page.
    fn block(page: &str, number: usize) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
        let text = std::fs::read_to_string(path).unwrap();
        let block = text.split("```toml\n").nth(number).unwrap().split("```").next().unwrap();
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

    #[cfg(feature = "kafka")]
    #[test]
    fn kafka_has_one_section_for_sources_and_sinks() {
        let good = block("reference/connect.md", 2).replace("username = \"reseq\"", "");
        let settings = read(&good).unwrap();
        assert_eq!((settings.sources.len(), settings.sinks.len()), (1, 1));
        read(&example("how-to/send-webhooks-from-kafka.md")).unwrap();
        for (from, to, problem) in [
            ("kafka-1.internal:9092", "kafka-1", "kafka: brokers: [\"kafka-1\""),
            ("brokers =", "username = \"a\"\nbrokers =", "username, password_file: one of them"),
            ("brokers =", "mechanism = \"gssapi\"\nbrokers =", "gssapi"),
            ("[\"erp\"]", "[\"erp\", \"crm\"]", "destinations: 2; a topic has one"),
            (
                "topic = \"orders\"",
                "topic = \"or ders\"",
                "source.orders.kafka: topic: \"or ders\"",
            ),
            ("topic = \"orders\"", "topic = \"o\"\nheaders = [\"X\"]", "headers: \"X\""),
            ("topic = \"invoices\"", "topic = \"\"", "sink.invoices: topic: \"\""),
            ("name = \"invoices\"", "name = \"orders\"", "sink.name: \"orders\" is there twice"),
            ("[kafka]\nbrokers", "[kafkas]\nbrokers", "kafkas"),
        ] {
            assert!(good.contains(from), "{from}");
            let told = format!("{:#}", read(&good.replacen(from, to, 1)).unwrap_err());
            assert!(told.contains(problem), "{problem} is not in: {told}");
        }
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
            ("[source.postgres]", "[source.kinesis]", "kinesis"),
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
