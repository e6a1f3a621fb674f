//! One line of a batch for `POST /v1/messages`.

use serde::Serialize;

use crate::source::Content;

/// A message on its way to one destination.
#[derive(Debug)]
pub struct Line {
    /// The index of its destination.
    pub destination: usize,
    pub position: String,
    /// `None`: only the mark moves.
    pub content: Option<Content>,
}

#[derive(Serialize)]
struct Wire<'a> {
    destinations: [&'a str; 1],
    #[serde(flatten)]
    content: Option<&'a Content>,
    source: WireSource<'a>,
}

#[derive(Serialize)]
struct WireSource<'a> {
    name: &'a str,
    position: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a str>,
    skip: bool,
}

impl Line {
    /// A line that only moves the mark.
    pub fn skip(destination: usize, position: &str) -> Line {
        Line { destination, position: position.to_owned(), content: None }
    }

    /// Appends it to a batch.
    pub fn write(
        &self,
        batch: &mut Vec<u8>,
        destination: &str,
        name: &str,
        after: Option<&str>,
    ) -> serde_json::Result<()> {
        let Line { position, content, .. } = self;
        let source = WireSource { name, position, after, skip: content.is_none() };
        let wire = Wire { destinations: [destination], content: content.as_ref(), source };
        serde_json::to_writer(&mut *batch, &wire)?;
        batch.push(b'\n');
        Ok(())
    }
}
