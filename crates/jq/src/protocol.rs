//! The protocol between a process and its `jq` runners: 4 bytes of length (big-endian), then that
//! many bytes of MessagePack.
//!
//! ```text
//! runner   GREETING, its version
//! process  Setup
//! runner   READY
//! process  (expression, Input)      runner  Evaluated     and so on, until the runner's input is closed
//! ```

use std::io::{self, ErrorKind, Read, Write};

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The first bytes that a runner sends. The last digit changes with the protocol.
pub const GREETING: &[u8; 8] = b"RESEQJQ3";
/// The version that a runner sends after the greeting.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// A runner sends this after its setup. The next frame is the answer to an input.
pub const READY: &str = "ready";

/// The settings of a runner.
#[derive(Debug, Serialize, Deserialize)]
pub struct Setup {
    /// The longest output, in bytes.
    pub output_bytes_max: usize,
}

/// A message to evaluate an expression for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Input {
    /// The input `.`, as JSON.
    pub body: Bytes,
    /// `$id`
    pub id: Option<String>,
    /// `$destination`
    pub destination: String,
    /// `$sequence`
    pub sequence: Option<u64>,
    /// `$key`
    pub key: Option<String>,
    /// `$headers`
    pub headers: Vec<(String, String)>,
}

/// The result of an evaluation.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Evaluated {
    /// The only output, as JSON.
    One(Bytes),
    /// There was no output.
    None,
    /// There was more than one output.
    Several,
    /// Why there is no output, as a sentence. Another try would fail the same way.
    Failed(String),
}

/// Encodes a value as a frame, with its length.
pub fn frame(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    rmp_serde::encode::write(&mut frame, value).map_err(io::Error::other)?;
    let length = u32::try_from(frame.len() - 4).map_err(io::Error::other)?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

/// Decodes the bytes of a frame.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    rmp_serde::from_slice(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Writes a frame.
pub fn write(output: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    output.write_all(&frame(value)?)?;
    output.flush()
}

/// Reads the next frame; `None` at the end of the input.
pub fn read<T: DeserializeOwned>(input: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
    input.read_exact(&mut bytes)?;
    decode(&bytes).map(Some)
}
