//! Reads messages and converts them to their wire format.

use std::{collections::BTreeMap, path::Path};

use anyhow::Context;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::de::IgnoredAny;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    sync::mpsc,
};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::{BATCH_MAX, SendArgs};

/// The content type of bodies that are JSON.
const JSON: &str = "application/json";
/// The content type of other bodies.
const TEXT: &str = "text/plain; charset=utf-8";

/// One message, ready to be sent.
#[derive(Debug)]
pub struct Item {
    /// The number of its line or argument, from 1.
    pub line: u64,
    /// Its length in the source, in bytes.
    pub bytes: usize,
    /// An object for `POST /v1/messages`, on one line.
    pub json: Vec<u8>,
}

/// Reads the messages in order, while others are being sent.
pub struct Source {
    form: Form,
    lines: mpsc::Receiver<std::io::Result<BatchLine>>,
    bytes_total: Option<u64>,
    _reader: AbortOnDropHandle<()>,
}

struct BatchLine {
    number: u64,
    bytes: usize,
    text: Vec<u8>,
}

/// The form of the objects that lines are converted to.
struct Form {
    destination: Option<String>,
    topic: Option<String>,
    key: Option<String>,
    delay_ms: Option<u64>,
    due_at: Option<String>,
    priority: Option<u8>,
    /// The content type; `None`: it depends on the body.
    content_type: Option<String>,
    /// The idempotency key of the only message, or the prefix of the keys of several messages.
    idempotency_key: Option<String>,
    is_one: bool,
    ndjson: bool,
    /// Random per run: together with the line number, it forms an idempotency key.
    run: Uuid,
}

impl Source {
    /// Opens the source that the arguments name.
    pub async fn open(args: &SendArgs) -> anyhow::Result<Source> {
        let form = Form {
            destination: args.destination.clone(),
            topic: args.topic.clone(),
            key: args.key.clone(),
            delay_ms: args.delay.map(|delay| delay.as_millis() as u64),
            due_at: args.due_at.clone(),
            priority: args.priority,
            content_type: args.content_type.clone(),
            idempotency_key: args.idempotency_key.clone(),
            is_one: matches!(args.messages.as_slice(), [one] if one != "-"),
            ndjson: args.ndjson,
            run: Uuid::new_v4(),
        };
        let (sender, lines) = mpsc::channel(2 * BATCH_MAX);
        let is_stdin = match &args.file {
            Some(path) => path == Path::new("-"),
            None => {
                matches!(args.messages.as_slice(), [] | [_]) && {
                    args.messages.first().is_none_or(|message| message == "-")
                }
            }
        };
        let (bytes_total, reader) = if is_stdin {
            (None, tokio::spawn(read_lines(tokio::io::stdin(), sender)))
        } else if let Some(path) = &args.file {
            let file = tokio::fs::File::open(path).await;
            let file = file.with_context(|| format!("opening {}", path.display()))?;
            let bytes = file.metadata().await.ok().filter(|file| file.is_file());
            (bytes.map(|file| file.len()), tokio::spawn(read_lines(file, sender)))
        } else {
            let bytes = args.messages.iter().map(|message| message.len() as u64).sum();
            (Some(bytes), tokio::spawn(feed(args.messages.clone(), sender)))
        };
        Ok(Source { form, lines, bytes_total, _reader: AbortOnDropHandle::new(reader) })
    }

    /// The total length, if it is known.
    pub fn bytes_total(&self) -> Option<u64> {
        self.bytes_total
    }

    /// The next messages: all that are available, and at least one until the end. With an error if the line after them
    /// is invalid.
    pub async fn batch(
        &mut self,
        max: usize,
        bytes_max: usize,
    ) -> (Vec<Item>, Option<anyhow::Error>) {
        let mut batch = Vec::new();
        let mut bytes = 0;
        let mut next = self.lines.recv().await;
        while let Some(line) = next {
            match line.map_err(anyhow::Error::from).and_then(|line| self.form.item(line)) {
                Ok(Some(item)) => {
                    bytes += item.json.len();
                    batch.push(item);
                }
                Ok(None) => {}
                Err(problem) => return (batch, Some(problem)),
            }
            if batch.len() >= max || bytes >= bytes_max {
                break;
            }
            next = match self.lines.try_recv() {
                Ok(line) => Some(line),
                // Only blank lines were read so far: wait, because an empty batch would mean the end.
                Err(_) if batch.is_empty() => self.lines.recv().await,
                Err(_) => None,
            };
        }
        (batch, None)
    }
}

async fn read_lines(
    input: impl AsyncRead + Unpin,
    sender: mpsc::Sender<std::io::Result<BatchLine>>,
) {
    let mut input = BufReader::new(input);
    for number in 1.. {
        let mut text = Vec::new();
        let read = match input.read_until(b'\n', &mut text).await {
            Ok(0) => return,
            Ok(bytes) => {
                if text.last() == Some(&b'\n') {
                    text.pop();
                }
                Ok(BatchLine { number, bytes, text })
            }
            Err(error) => Err(error),
        };
        let is_last = read.is_err();
        // The receiver is gone: sending has stopped.
        if sender.send(read).await.is_err() || is_last {
            return;
        }
    }
}

async fn feed(messages: Vec<String>, sender: mpsc::Sender<std::io::Result<BatchLine>>) {
    for (number, message) in (1..).zip(messages) {
        let line = BatchLine { number, bytes: message.len(), text: message.into_bytes() };
        if sender.send(Ok(line)).await.is_err() {
            return;
        }
    }
}

impl Form {
    /// The message of a line; `None` for a blank line between objects.
    fn item(&self, line: BatchLine) -> anyhow::Result<Option<Item>> {
        let BatchLine { number, bytes, text } = line;
        let idempotency_key = match &self.idempotency_key {
            Some(key) if self.is_one => key.clone(),
            Some(key) => format!("{key}/{number}"),
            None => format!("send-{}-{number}", self.run.simple()),
        };
        let json = if !self.ndjson {
            serde_json::to_vec(&self.wrapped(&text, &idempotency_key))?
        } else if text.trim_ascii().is_empty() {
            return Ok(None);
        } else {
            self.completed(&text, &idempotency_key).with_context(|| format!("line {number}"))?
        };
        Ok(Some(Item { line: number, bytes, json }))
    }

    /// The options from the arguments, for messages that do not set them.
    fn options(&self) -> impl Iterator<Item = (&'static str, serde_json::Value)> {
        let key = self.key.as_deref().map(|key| ("key", key.into()));
        let delay = self.delay_ms.map(|delay_ms| ("delay_ms", delay_ms.into()));
        let priority = self.priority.map(|priority| ("priority", priority.into()));
        let due_at = self.due_at.as_deref().map(|time| ("due_at", time.into()));
        key.into_iter().chain(delay).chain(due_at).chain(priority)
    }

    /// The recipients from the arguments, for messages that name none.
    fn target(&self) -> Option<(&'static str, serde_json::Value)> {
        let topic = self.topic.as_deref().map(|topic| ("topic", topic.into()));
        topic.or_else(|| self.destination.as_ref().map(|name| ("destinations", json!([name]))))
    }

    /// The content type from the arguments, or that of the body.
    fn content_type_of(&self, text: &[u8]) -> &str {
        match &self.content_type {
            Some(content_type) => content_type,
            None if serde_json::from_slice::<IgnoredAny>(text).is_ok() => JSON,
            None => TEXT,
        }
    }

    /// Wraps a body into an object.
    fn wrapped(&self, text: &[u8], idempotency_key: &str) -> serde_json::Value {
        let mut object = json!({
            "body_base64": STANDARD.encode(text),
            "content_type": self.content_type_of(text),
            "idempotency_key": idempotency_key,
        });
        for (name, value) in self.options().chain(self.target()) {
            object[name] = value;
        }
        object
    }

    /// Adds missing fields to the object of a line. Existing values keep their original text,
    /// except for line breaks between tokens.
    fn completed(&self, text: &[u8], idempotency_key: &str) -> anyhow::Result<Vec<u8>> {
        let object = serde_json::from_slice::<BTreeMap<String, Box<RawValue>>>(text);
        let mut object = object.context("is not a JSON object")?;
        let mut complete = |name: &str, value: serde_json::Value| -> anyhow::Result<()> {
            object.entry(name.to_owned()).or_insert(to_raw_value(&value)?);
            Ok(())
        };
        complete("idempotency_key", idempotency_key.into())?;
        for (name, value) in self.options() {
            complete(name, value)?;
        }
        let names_one = ["destinations", "topic"].iter().any(|name| object.contains_key(*name));
        if !names_one {
            let target = self.target();
            let (name, value) = target.context("names no \"destinations\"; add them, or -d")?;
            object.insert(name.to_owned(), to_raw_value(&value)?);
        }
        // A line can contain no other line break than a carriage return between tokens.
        let mut json = serde_json::to_vec(&object)?;
        json.iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b' ');
        Ok(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(args: &[&str]) -> SendArgs {
        use clap::Parser;
        #[derive(Parser)]
        struct Cli {
            #[command(flatten)]
            send: SendArgs,
        }
        Cli::try_parse_from([&["send"], args].concat()).unwrap().send
    }

    async fn batches(args: &[&str], max: usize) -> (Vec<Vec<serde_json::Value>>, Option<String>) {
        let mut source = Source::open(&source(args)).await.unwrap();
        let mut batches = Vec::new();
        loop {
            let (batch, problem) = source.batch(max, 1 << 20).await;
            let is_end = batch.is_empty() || problem.is_some();
            if !batch.is_empty() {
                let read = batch.iter().map(|item| serde_json::from_slice(&item.json).unwrap());
                batches.push(read.collect());
            }
            if is_end {
                return (batches, problem.map(|problem| format!("{problem:#}")));
            }
        }
    }

    #[tokio::test]
    async fn arguments_are_bodies_each_with_a_key_of_its_own() {
        let (batches, problem) = batches(&["-d", "erp", "--key", "k", "a", "b c", ""], 2).await;
        let all: Vec<_> = batches.concat();
        assert_eq!((all.len(), problem), (3, None));
        assert!(batches.iter().all(|batch| batch.len() <= 2));
        assert_eq!(all[1]["body_base64"], STANDARD.encode("b c"));
        assert_eq!((&all[0]["destinations"], &all[0]["key"]), (&json!(["erp"]), &json!("k")));
        assert_ne!(all[0]["idempotency_key"], all[1]["idempotency_key"]);
    }

    #[tokio::test]
    async fn json_is_recognised_unless_a_content_type_is_given() {
        let bodies = ["{\"a\": 1.50}", "[]", "7", "\"a\"", "{\"a\"", "a b", "", "7 8"];
        let types = async |more: &[&str]| {
            let (batches, _) = batches(&[&["-d", "erp"], more, &bodies].concat(), 100).await;
            let types = batches.concat().into_iter();
            types.map(|one| one["content_type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(types(&[]).await, [[JSON; 4], [TEXT; 4]].concat());
        assert_eq!(types(&["--content-type", "application/xml"]).await, ["application/xml"; 8]);
    }

    #[tokio::test]
    async fn a_topic_and_a_time_go_with_each() {
        let time = "2026-11-21T10:00:00Z";
        let (batches, _) = batches(&["--topic", "orders", "--due-at", time, "a"], 2).await;
        let only = &batches[0][0];
        assert_eq!((&only["topic"], &only["due_at"]), (&json!("orders"), &json!(time)));
        assert!(only.get("destinations").is_none());
    }

    #[tokio::test]
    async fn objects_keep_what_they_say_and_a_bad_line_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines = [
            r#"{"destinations":["crm"],"body":{"x":1.50},"idempotency_key":"mine"}"#,
            "",
            r#"{"body":2}"#,
            "{",
            r#"{"body":3}"#,
        ];
        std::fs::write(file.path(), lines.join("\r\n")).unwrap();
        let path = file.path().to_str().unwrap();
        let (batches, problem) = batches(&["-d", "erp", "--ndjson", "--file", path], 200).await;
        let all: Vec<_> = batches.concat();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0]["destinations"], json!(["crm"]));
        assert_eq!(all[0]["idempotency_key"], "mine");
        assert_eq!(all[1]["destinations"], json!(["erp"]));
        assert!(problem.unwrap().starts_with("line 4: is not a JSON object"));
    }

    #[test]
    fn numbers_of_an_object_stay_the_text_that_was_read() {
        let form = Form {
            destination: None,
            topic: None,
            key: None,
            delay_ms: Some(900_000),
            due_at: None,
            priority: None,
            content_type: None,
            idempotency_key: Some("mine".into()),
            is_one: false,
            ndjson: true,
            run: Uuid::nil(),
        };
        let text = br#"{"destinations":["a"],"body":123456789012345678901234567890.10}"#;
        let json = String::from_utf8(form.completed(text, "k").unwrap()).unwrap();
        assert!(json.contains("123456789012345678901234567890.10"), "{json}");
        assert!(json.contains(r#""delay_ms":900000"#) && !json.contains("priority"), "{json}");
        assert!(form.completed(br#"{"body":1}"#, "k").is_err());
    }
}
