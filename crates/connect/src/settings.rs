//! The configuration file. An error names the field.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use client::{Header, Service, Unusable};
use config::ClientTls;
use serde::Deserialize;
use tls::Pem;

#[cfg(feature = "kafka")]
use crate::kafka::Topic;
use crate::{run::Launch, source::Source};

/// The most sources and sinks of one process.
const SOURCES_MAX: usize = 64;
/// The most destinations of one source.
const DESTINATIONS_MAX: usize = 100;

/// The sources of a section, each with its name in the log and the metrics.
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
    pub log: config::Log,
    #[serde(default, rename = "source")]
    pub sources: Vec<SourceSettings>,
    #[cfg(feature = "kafka")]
    #[serde(default, rename = "sink")]
    pub sinks: Vec<crate::kafka::SinkSettings>,
}

/// The URL of the service, and how to connect.
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

/// The action for a message that Reseq refuses permanently.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnRefused {
    /// Wait until an operator has changed the destination, or has moved its mark.
    #[default]
    Halt,
    /// Continue without the message.
    Skip,
}

/// A source, and the destinations of its messages.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSettings {
    pub name: String,
    pub destinations: Vec<String>,
    #[serde(default)]
    pub on_refused: OnRefused,
    /// The settings for the kind of the source.
    #[cfg(feature = "postgres")]
    pub postgres: Option<crate::postgres::Settings>,
    #[cfg(feature = "kafka")]
    pub kafka: Option<crate::kafka::Settings>,
}

/// The default of fields that are on by default.
pub fn yes() -> bool {
    true
}

impl Settings {
    /// Reads and checks the file.
    pub fn read(path: &Path) -> anyhow::Result<Settings> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        Settings::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> anyhow::Result<Settings> {
        let settings: Settings = toml::from_str(text)?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> anyhow::Result<()> {
        let mut names = BTreeSet::new();
        #[cfg(feature = "postgres")]
        let mut slots = std::collections::BTreeMap::new();
        for source in &self.sources {
            let name = &source.name;
            check_name("source.name", name, &mut names)?;
            source.check(self).with_context(|| format!("source.{name}"))?;
            #[cfg(feature = "postgres")]
            if let Some(own) = &source.postgres
                && let Some(other) = slots.insert(own.place_of_slot(), name)
            {
                let slot = &own.slot;
                bail!("source.{name}.postgres.slot: {slot:?} is also that of source {other}");
            }
        }
        #[cfg(feature = "kafka")]
        self.check_kafka(&mut names)?;
        let count = names.len();
        ensure!((1..=SOURCES_MAX).contains(&count), "source: {count}; must be 1 to {SOURCES_MAX}");
        telemetry::check_level(&self.log.level).map_err(anyhow::Error::msg)?;
        self.reseq.service().map(drop)
    }
}

#[cfg(feature = "kafka")]
impl Settings {
    /// The section `[kafka]`; an error if it is missing.
    pub fn kafka(&self) -> anyhow::Result<&crate::kafka::Cluster> {
        self.kafka.as_ref().context("kafka: is missing; add a section [kafka]")
    }

    fn check_kafka<'a>(&'a self, names: &mut BTreeSet<&'a str>) -> anyhow::Result<()> {
        if let Some(kafka) = &self.kafka {
            kafka.check().context("kafka")?;
        }
        for sink in &self.sinks {
            check_name("sink.name", &sink.name, names)?;
            self.kafka()?;
            sink.check().with_context(|| format!("sink.{}", sink.name))?;
        }
        Ok(())
    }
}

fn check_name<'a>(field: &str, name: &'a str, names: &mut BTreeSet<&'a str>) -> anyhow::Result<()> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_good = (1..=64).contains(&name.len()) && name.bytes().all(is_name);
    ensure!(is_good, "{field}: {name:?}; must be 1 to 64 letters, digits, - _ .");
    ensure!(names.insert(name), "{field}: {name:?} is there twice");
    Ok(())
}

impl SourceSettings {
    fn check(&self, all: &Settings) -> anyhow::Result<()> {
        let count = self.destinations.len();
        ensure!(
            (1..=DESTINATIONS_MAX).contains(&count),
            "destinations: {count}; must be 1 to {DESTINATIONS_MAX}"
        );
        let mut known = BTreeSet::new();
        for name in &self.destinations {
            let problem = || format!("destinations: {name:?}");
            name.parse::<domain::DestinationName>().with_context(problem)?;
            ensure!(known.insert(name), "{} is there twice", problem());
        }
        let mut kinds = 0;
        #[cfg(feature = "postgres")]
        if let Some(postgres) = &self.postgres {
            postgres.check(count).context("postgres")?;
            kinds += 1;
        }
        #[cfg(feature = "kafka")]
        if let Some(kafka) = &self.kafka {
            all.kafka()?;
            kafka.check(count).context("kafka")?;
            kinds += 1;
        }
        let _ = all;
        ensure!(kinds == 1, "must have one section, such as [source.postgres]");
        Ok(())
    }

    /// Checks where somebody says to begin the source of this name.
    pub fn check_begin(&self, name: &str, at: &str) -> anyhow::Result<()> {
        #[cfg(feature = "kafka")]
        if self.kafka.is_some() {
            return crate::kafka::check_begin(at);
        }
        ensure!(name == self.name, "{name}: only a topic has parts");
        #[cfg(feature = "postgres")]
        crate::postgres::check_begin(at)?;
        Ok(())
    }

    /// The sources of the section, for queries.
    pub async fn sources(&self, all: &Settings) -> anyhow::Result<Sources> {
        #[cfg(feature = "kafka")]
        if let Some(kafka) = &self.kafka {
            return Ok(Topic::new(&self.name, kafka, all.kafka()?).sources().await?);
        }
        let _ = all;
        #[cfg(feature = "postgres")]
        if let Some(postgres) = &self.postgres {
            let source = crate::postgres::Postgres::new(&self.name, postgres)?;
            return Ok(vec![(self.name.clone(), Box::new(source))]);
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
            let topic = Topic::new(&section.name, kafka, all.kafka()?);
            self.shared.board.add(&section.name);
            self.shared.tasks.clone().spawn(topic.run(self));
            return Ok(());
        }
        for (label, source) in section.sources(all).await? {
            self.start(label, source);
        }
        Ok(())
    }
}

impl Reseq {
    /// A client of the service.
    pub fn service(&self) -> anyhow::Result<Service> {
        let mut headers = Vec::new();
        if let Some(path) = &self.token_file {
            let token = secret("reseq.token_file", path)?;
            let problem = "reseq.token_file: has characters that no token has";
            headers.push(Header::bearer(&token).context(problem)?);
        }
        let files = client_tls(&self.ca_file, &self.certificate_file, &self.key_file);
        let pem = Pem::read("reseq", &files)?;
        Service::at(&self.url, &headers, &pem).map_err(|error| match error {
            Unusable::Url => anyhow::anyhow!("reseq.url: {error}"),
            Unusable::Ca => anyhow::anyhow!("reseq.ca_file: {error}"),
            Unusable::Identity => anyhow::anyhow!("reseq.certificate_file: {error}"),
            Unusable::Client(error) => error.into(),
        })
    }
}

/// TLS settings from these fields of a section. Each field may be absent.
pub fn client_tls(
    ca: &Option<PathBuf>,
    certificate: &Option<PathBuf>,
    key: &Option<PathBuf>,
) -> ClientTls {
    let [ca_file, certificate_file, key_file] =
        [ca, certificate, key].map(|path| path.clone().unwrap_or_default());
    ClientTls { ca_file, certificate_file, key_file }
}

/// The secret in a file, without white space around it.
pub fn secret(field: &str, path: &Path) -> anyhow::Result<String> {
    config::read_secret(path).map_err(|problem| anyhow::anyhow!("{field}: {problem}"))
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
        Settings::parse(text)
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
                "source.orders: kafka: topic: \"or ders\"",
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
                "reseq.token_file: the file /none cannot be read",
            ),
            ("[\"erp\"]", "[]", "source.orders: destinations: 0; must be 1"),
            ("[\"erp\"]", "[\"erp\", \"crm\"]", "columns.destination: is missing"),
            ("[\"erp\"]", "[\"a b\"]", "source.orders: destinations: \"a b\""),
            ("\"reseq\"\npub", "\"Re seq\"\npub", "source.orders: postgres: slot: \"Re seq\""),
            ("public.outbox", "outbox", "table: \"outbox\"; write it with its schema"),
            ("slot =", "confirm_delay_ms = 5\nslot =", "confirm_delay_ms: 5; must be 1000"),
            ("slot =", "slots =", "slots"),
            ("slot =", "ca_fil = \"x\"\nslot =", "unknown field `ca_fil`, expected one of"),
            ("[reseq]", "[reseq]\nkey_file = \"x\"", "reseq.certificate_file is not valid"),
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
