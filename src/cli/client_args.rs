//! The options of all commands that are clients of a service.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use super::{
    client::{Answer, Call, Refused, Service},
    header::{Header, HeaderParser},
    output::{Output, write_out},
    usage::WrongUsage,
};
use crate::tls::Pem;

/// The heading of these options in the help.
const HEADING: &str = "Options of all clients";

/// Where the service is, and how to print what it answers.
#[derive(Debug, Clone, Args)]
pub struct ClientArgs {
    /// URL of the service
    #[arg(
        long,
        help_heading = HEADING,
        env = "RESEQ_URL",
        hide_env_values = true,
        default_value = "http://127.0.0.1:8080"
    )]
    pub url: String,
    /// Header of every request, such as 'Authorization: Bearer …'; repeat the option for more
    #[arg(
        long = "header",
        help_heading = HEADING,
        value_name = "NAME: VALUE",
        env = "RESEQ_HEADER",
        hide_env_values = true,
        value_parser = HeaderParser
    )]
    pub headers: Vec<Header>,
    /// File with the token of every request; without it, the variable RESEQ_TOKEN counts. A token is
    /// never an argument, which other users of the machine could read
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// File with root certificates (PEM) that a TLS server may have its certificate from, beside those of
    /// the system
    #[arg(long, help_heading = HEADING, value_name = "FILE", env = "RESEQ_CA_FILE")]
    pub ca_file: Option<PathBuf>,
    /// File with the certificate (PEM) of this client, for a server that wants one
    #[arg(
        long,
        help_heading = HEADING,
        value_name = "FILE",
        env = "RESEQ_CERTIFICATE_FILE",
        requires = "key_file"
    )]
    pub certificate_file: Option<PathBuf>,
    /// File with the key (PEM) of that certificate
    #[arg(
        long,
        help_heading = HEADING,
        value_name = "FILE",
        env = "RESEQ_KEY_FILE",
        requires = "certificate_file"
    )]
    pub key_file: Option<PathBuf>,
    /// Format of the output
    #[arg(
        short,
        long,
        help_heading = HEADING,
        value_name = "FORMAT",
        default_value_t,
        value_enum
    )]
    pub output: Output,
}

impl ClientArgs {
    /// The service.
    pub fn service(&self) -> anyhow::Result<Service> {
        let mut headers = self.headers.clone();
        if let Some(token) = self.token()? {
            let problem = "the token (--token-file, RESEQ_TOKEN) has characters that no token has";
            let header = Header::bearer(&token).ok_or_else(|| WrongUsage(problem.to_owned()))?;
            headers.push(header);
        }
        let read = |option: &str, path: &Option<PathBuf>| match path {
            None => Ok(None),
            Some(path) => std::fs::read(path)
                .map(Some)
                .with_context(|| format!("{option}: {} cannot be read", path.display())),
        };
        let certificate = read("--certificate-file", &self.certificate_file)?;
        let pem = Pem {
            ca: read("--ca-file", &self.ca_file)?,
            identity: certificate.zip(read("--key-file", &self.key_file)?),
        };
        Service::at(&self.url, &headers, &pem)
    }

    /// The token, if there is one.
    fn token(&self) -> anyhow::Result<Option<String>> {
        let text = match &self.token_file {
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("--token-file: {} cannot be read", path.display()))?,
            None => std::env::var("RESEQ_TOKEN").unwrap_or_default(),
        };
        Ok(Some(text.trim().to_owned()).filter(|token| !token.is_empty()))
    }

    /// Makes a call. With `-o json`, prints a problem too.
    pub async fn call(&self, call: Call<'_>) -> anyhow::Result<Answer> {
        let answer = self.service()?.call(call).await;
        self.print_problem(&answer)?;
        answer
    }

    /// GETs.
    pub async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.call(Call::get(path)).await
    }

    /// DELETEs.
    pub async fn delete(&self, path: &str) -> anyhow::Result<Answer> {
        self.call(Call::delete(path)).await
    }

    /// POSTs JSON.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.call(Call::post(path, body)).await
    }

    /// Prints an answer: the original JSON, or as text.
    pub fn print(
        &self,
        answer: &Answer,
        words: impl FnOnce(&Answer) -> String,
    ) -> anyhow::Result<()> {
        match self.output {
            Output::Json => write_out(&answer.text),
            Output::Table => write_out(&words(answer)),
        }
    }

    /// With `-o json`, prints the problem object of a refusal.
    pub fn print_problem<T>(&self, result: &anyhow::Result<T>) -> anyhow::Result<()> {
        let refused = result.as_ref().err().and_then(|error| error.downcast_ref::<Refused>());
        match (self.output, refused) {
            (Output::Json, Some(refused)) => write_out(&refused.object),
            _ => Ok(()),
        }
    }
}
