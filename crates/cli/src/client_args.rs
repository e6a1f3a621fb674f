//! The options of all commands that are clients of a service.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde_json::Value;

use super::{
    context::{Context, Contexts},
    filters::Paging,
    header::HeaderParser,
    output::{Output, list, write_out},
    usage::WrongUsage,
};
use client::{
    Answer, Call, Header, Refused, Service, Unusable, pages,
    paths::{Field, text},
};
use tls::Pem;

/// The heading of these options in the help.
const HEADING: &str = "Options of all clients";
/// The default URL, if neither a URL nor a context is given.
const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// A client of the service at this URL. The error names the option.
pub fn service_at(url: &str, headers: &[Header], pem: &Pem) -> anyhow::Result<Service> {
    Service::at(url, headers, pem).map_err(|error| match error {
        Unusable::Url => WrongUsage(format!("--url is {error}")).into(),
        Unusable::Ca => anyhow::anyhow!("--ca-file: {error}"),
        Unusable::Identity => anyhow::anyhow!("--certificate-file, --key-file: {error}"),
        Unusable::Client(error) => error.into(),
    })
}

/// Options with the place of the service, and the format of the output.
#[derive(Debug, Clone, Args)]
pub struct ClientArgs {
    /// URL of the service. Default: the variable RESEQ_URL, or else the URL of the context, or else
    /// http://127.0.0.1:8080
    #[arg(long, help_heading = HEADING, conflicts_with = "context")]
    pub url: Option<String>,
    /// Context with the URL and the token of the service (see reseq context). Default: the variable
    /// RESEQ_CONTEXT, or else the current context
    #[arg(long, help_heading = HEADING, value_name = "NAME")]
    pub context: Option<String>,
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
    /// File with the token of every request. Default: the token of the context; without a context, the
    /// token in the variable RESEQ_TOKEN. A token is never an argument, because other users of the
    /// machine could read it
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// File with root certificates (PEM) to trust for an https:// URL, in addition to those of the
    /// system
    #[arg(long, help_heading = HEADING, value_name = "FILE", env = "RESEQ_CA_FILE")]
    pub ca_file: Option<PathBuf>,
    /// File with the certificate (PEM) of this client, for a service that requires one
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
    /// The service that the options name.
    pub fn service(&self) -> anyhow::Result<Service> {
        let target = self.target()?;
        let mut headers = self.headers.clone();
        if let Some(token) = target.token {
            let problem = "the token (--token-file, RESEQ_TOKEN) has characters that no token has";
            let header = Header::bearer(&token).ok_or_else(|| WrongUsage(problem.to_owned()))?;
            headers.push(header);
        }
        let read = |option: &str, path: Option<PathBuf>| match path {
            None => Ok(None),
            Some(path) => std::fs::read(&path)
                .map(Some)
                .with_context(|| format!("{option}: {} cannot be read", path.display())),
        };
        let certificate = read("--certificate-file", target.certificate_file)?;
        let pem = Pem {
            ca: read("--ca-file", target.ca_file)?,
            identity: certificate.zip(read("--key-file", target.key_file)?),
        };
        service_at(&target.url, &headers, &pem)
    }

    /// The URL, token and certificates to use. A token belongs to one service: with a context, only the context's token
    /// or `--token-file` applies.
    fn target(&self) -> anyhow::Result<Context> {
        let given = self.token_in_file()?;
        let own = |of_context: Option<&PathBuf>, path: &Option<PathBuf>| {
            path.clone().or_else(|| of_context.cloned())
        };
        let Some(context) = self.chosen()? else {
            let variable = |name| Some(std::env::var(name).ok()?.trim().to_owned());
            let url = self.url.clone().or_else(|| variable("RESEQ_URL"));
            let url = url.filter(|url| self.url.is_some() || !url.is_empty());
            return Ok(Context {
                url: url.unwrap_or_else(|| DEFAULT_URL.to_owned()),
                token: given.or_else(|| variable("RESEQ_TOKEN").filter(|token| !token.is_empty())),
                ca_file: self.ca_file.clone(),
                certificate_file: self.certificate_file.clone(),
                key_file: self.key_file.clone(),
            });
        };
        Ok(Context {
            token: given.or(context.token),
            ca_file: own(context.ca_file.as_ref(), &self.ca_file),
            certificate_file: own(context.certificate_file.as_ref(), &self.certificate_file),
            key_file: own(context.key_file.as_ref(), &self.key_file),
            url: context.url,
        })
    }

    /// The context, unless a URL has priority.
    fn chosen(&self) -> anyhow::Result<Option<Context>> {
        let is_set = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let name = match (&self.url, &self.context) {
            (Some(_), _) => return Ok(None),
            (None, Some(name)) => Some(name.clone()),
            (None, None) if is_set("RESEQ_URL").is_some() => return Ok(None),
            (None, None) => is_set("RESEQ_CONTEXT"),
        };
        let contexts = Contexts::load()?;
        match name.or_else(|| contexts.current.clone()) {
            Some(name) => Ok(Some(contexts.find(&name)?.clone())),
            None => Ok(None),
        }
    }

    /// The token in the file that the option names.
    fn token_in_file(&self) -> anyhow::Result<Option<String>> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("--token-file: {} cannot be read", path.display()))?;
        Ok(Some(text.trim().to_owned()).filter(|token| !token.is_empty()))
    }

    /// Makes a call. With `-o json` or `yaml`, also prints the problem object of a refusal.
    pub async fn call(&self, call: Call<'_>) -> anyhow::Result<Answer> {
        let answer = self.service()?.call(call).await;
        self.print_problem(&answer)?;
        answer
    }

    /// Makes a GET.
    pub async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.call(Call::get(path)).await
    }

    /// Makes a DELETE.
    pub async fn delete(&self, path: &str) -> anyhow::Result<Answer> {
        self.call(Call::delete(path)).await
    }

    /// Makes a POST of JSON.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.call(Call::post(path, body)).await
    }

    /// The answer in the format of the output: the original JSON, another format, or text.
    pub fn shown(
        &self,
        answer: &Answer,
        words: impl FnOnce(&Answer) -> String,
    ) -> anyhow::Result<String> {
        match self.output {
            Output::Table => Ok(words(answer)),
            output => output.render(&answer.text),
        }
    }

    /// Prints an answer.
    pub fn print(
        &self,
        answer: &Answer,
        words: impl FnOnce(&Answer) -> String,
    ) -> anyhow::Result<()> {
        write_out(&self.shown(answer, words)?)
    }

    /// Reads a list until it has as many items as the user wants, and prints it.
    pub async fn list(
        &self,
        from: (&str, &[Field]),
        paging: &Paging,
        columns: &[&str],
        row: impl Fn(&Value) -> Vec<String>,
    ) -> anyhow::Result<()> {
        write_out(&self.list_shown(from, paging, columns, row).await?)
    }

    /// Reads the list like `list`, and returns the text to print.
    pub async fn list_shown(
        &self,
        (path, fields): (&str, &[Field]),
        paging: &Paging,
        columns: &[&str],
        row: impl Fn(&Value) -> Vec<String>,
    ) -> anyhow::Result<String> {
        let cursor = text(paging.cursor.as_deref());
        let read = pages::read(&self.service()?, path, fields, paging.max(), cursor).await;
        self.print_problem(&read)?;
        self.shown(&read?, |answer| list(answer, columns, row))
    }

    /// If the service refused the request and the format is JSON or YAML, prints the problem object.
    pub fn print_problem<T>(&self, result: &anyhow::Result<T>) -> anyhow::Result<()> {
        let refused = result.as_ref().err().and_then(|error| error.downcast_ref::<Refused>());
        match (self.output, refused) {
            (Output::Json, Some(refused)) => write_out(&refused.object),
            // An answer that cannot be converted to YAML is printed unchanged.
            (Output::Yaml, Some(refused)) => {
                let rendered = self.output.render(&refused.object);
                write_out(rendered.as_deref().unwrap_or(&refused.object))
            }
            _ => Ok(()),
        }
    }
}
