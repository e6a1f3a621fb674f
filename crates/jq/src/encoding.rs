//! Decodes the body of a message that a producer has compressed.

use std::io::Read;

use bytes::Bytes;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

use super::protocol::Input;
use domain::Message;

/// The encodings that can be decoded.
pub const DECODED: &str = "gzip, deflate and br";
/// The buffer of the decoder of `br`, in bytes.
const BUFFER_BYTES: usize = 4096;

/// True if Reseq can decode a body with this `Content-Encoding`.
pub fn can_decode(encoding: &str) -> bool {
    ["gzip", "x-gzip", "deflate", "br"].iter().any(|one| one.eq_ignore_ascii_case(encoding))
}

/// The decoded body, of at most `bytes_max`.
pub(super) fn decoded(input: &Input, bytes_max: usize) -> Result<Bytes, String> {
    let Some(encoding) = Message::encoding(&input.headers) else { return Ok(input.body.clone()) };
    let body = &*input.body;
    let decoder: Box<dyn Read + '_> = match &*encoding.to_ascii_lowercase() {
        "gzip" | "x-gzip" => Box::new(MultiGzDecoder::new(body)),
        "br" => Box::new(brotli_decompressor::Decompressor::new(body, BUFFER_BYTES)),
        // "deflate" means the zlib format, whose header is a multiple of 31. Some producers send raw deflate data.
        "deflate"
            if body.len() > 1 && !u16::from_be_bytes([body[0], body[1]]).is_multiple_of(31) =>
        {
            Box::new(DeflateDecoder::new(body))
        }
        "deflate" => Box::new(ZlibDecoder::new(body)),
        other => return Err(format!("the body has the content encoding {other}, not {DECODED}")),
    };
    let mut plain = Vec::new();
    let read = decoder.take(bytes_max as u64 + 1).read_to_end(&mut plain);
    read.map_err(|error| format!("the body cannot be decoded as {encoding}: {error}"))?;
    if plain.len() > bytes_max {
        return Err(format!("the decoded body is longer than {bytes_max} bytes"));
    }
    Ok(plain.into())
}
