//! The section `[source.postgres]`.

use std::path::PathBuf;

use anyhow::ensure;
use serde::Deserialize;
use tls::Connector;

use super::session::Target;
use crate::settings::{client_tls, secret, yes};

/// The settings of an outbox.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    host: String,
    #[serde(default = "port")]
    port: u16,
    pub database: String,
    user: String,
    password_file: Option<PathBuf>,
    #[serde(default = "yes")]
    tls: bool,
    ca_file: Option<PathBuf>,
    certificate_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    pub slot: String,
    /// Whether to create the slot if it does not exist and the source was never read.
    #[serde(default = "yes")]
    pub create_slot: bool,
    pub publication: String,
    /// The table of the outbox, with its schema.
    pub table: Option<String>,
    #[serde(default)]
    pub columns: Columns,
    /// The content type of bodies that are not JSON.
    pub content_type: Option<String>,
    /// The prefix of `pg_logical_emit_message` texts to send.
    pub message_prefix: Option<String>,
    /// How long the slot keeps messages that Reseq has stored: longer than the time of which Redis can lose writes.
    #[serde(default = "confirm_delay_ms")]
    pub confirm_delay_ms: u64,
    /// If the slot keeps more bytes of the log than this, the process is not ready.
    #[serde(default = "slot_bytes_max")]
    pub slot_bytes_max: u64,
}

fn port() -> u16 {
    5432
}

fn confirm_delay_ms() -> u64 {
    60_000
}

fn slot_bytes_max() -> u64 {
    4 << 30
}

/// The columns of the outbox.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Columns {
    pub body: String,
    pub key: Option<String>,
    pub destination: Option<String>,
    pub headers: Option<String>,
    pub id: Option<String>,
}

impl Default for Columns {
    fn default() -> Columns {
        let body = "body".to_owned();
        Columns { body, key: None, destination: None, headers: None, id: None }
    }
}

impl Columns {
    /// The names of all columns.
    pub fn names(&self) -> Vec<&String> {
        let Columns { body, key, destination, headers, id } = self;
        let others = [key, destination, headers, id].into_iter().flatten();
        std::iter::once(body).chain(others).collect()
    }
}

impl Settings {
    /// Checks the section. An error names the field.
    pub fn check(&self, destinations: usize) -> anyhow::Result<()> {
        let is_slot = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        ensure!(
            (1..=63).contains(&self.slot.len()) && self.slot.bytes().all(is_slot),
            "slot: {:?}; must be 1 to 63 of a-z, 0-9 and _",
            self.slot
        );
        let is_some = self.table.is_some() || self.message_prefix.is_some();
        ensure!(is_some, "table: is missing (or message_prefix, for pg_logical_emit_message)");
        for (field, text) in [
            ("host", Some(&self.host)),
            ("database", Some(&self.database)),
            ("user", Some(&self.user)),
            ("publication", Some(&self.publication)),
            ("table", self.table.as_ref()),
            ("message_prefix", self.message_prefix.as_ref()),
        ] {
            let is_text = |text: &&String| !text.is_empty() && !text.contains(char::is_control);
            ensure!(text.is_none_or(|text| is_text(&text)), "{field}: must be a text");
        }
        if let Some(table) = &self.table {
            ensure!(
                table.contains('.'),
                "table: {table:?}; write it with its schema: public.{table}"
            );
        }
        let is_one = destinations == 1;
        ensure!(
            self.table.is_none() || is_one || self.columns.destination.is_some(),
            "columns.destination: is missing, and the source has several destinations"
        );
        let range = 1_000..=86_400_000;
        ensure!(
            range.contains(&self.confirm_delay_ms),
            "confirm_delay_ms: {}; must be 1000 to 86400000",
            self.confirm_delay_ms
        );
        ensure!(self.slot_bytes_max > 0, "slot_bytes_max: must be more than 0");
        self.target().map(drop)
    }

    /// The server and the slot. No two sources may have the same.
    pub fn place_of_slot(&self) -> (&str, u16, &str) {
        (&self.host, self.port, &self.slot)
    }

    /// The address and the user for a connection.
    pub fn target(&self) -> anyhow::Result<Target> {
        let Settings { host, port, database, user, .. } = self.clone();
        let password = self.password_file.as_ref();
        let password = password.map(|path| secret("password_file", path)).transpose()?;
        let files = client_tls(&self.ca_file, &self.certificate_file, &self.key_file);
        files.validate("postgres")?;
        let tls = self.tls.then(|| Connector::open("postgres", &files));
        Ok(Target { host, port, database, user, password, tls: tls.transpose()? })
    }
}
