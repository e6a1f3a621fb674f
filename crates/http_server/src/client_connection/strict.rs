//! Checks the framing of HTTP/1 requests, and refuses requests that two programs may read differently.
//! With a proxy in front of Reseq, such a request could smuggle in another (RFC 9112, 11.2).
//!
//! The HTTP library accepts some of these requests, as the standard allows: a length beside
//! `Transfer-Encoding`, the same length twice, lines that end without a carriage return. It reads
//! the same bytes, so this module does not repeat the library's own checks.

/// The longest head of a request, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// Why a request is ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ambiguous {
    /// A line of the head, or of the chunks, ends without a carriage return.
    #[error("a line ends with a line feed alone; end each with CR and LF")]
    BareLineFeed,
    /// The head has both `Content-Length` and `Transfer-Encoding`.
    #[error("the request has both Content-Length and Transfer-Encoding; send one of them")]
    LengthAndEncoding,
    /// The head has the same header more than once.
    #[error("the request has the header {0} more than once")]
    Repeated(&'static str),
    /// The request has a transfer coding other than chunked.
    #[error("Transfer-Encoding: only chunked is allowed")]
    Encoding,
    /// A line with a header that frames the body is longer than any valid one.
    #[error("a header that says where the body ends is too long")]
    TooLong,
    /// The head has more than [`HEAD_BYTES_MAX`] bytes. The HTTP library may notice this only after it has read more.
    #[error("the head of the request has more than {HEAD_BYTES_MAX} bytes")]
    LongHead,
}

/// Only this many bytes of a line are checked: enough for the headers that frame the body.
const LINE_MAX: usize = 64;

/// Follows the requests of one connection, byte by byte.
#[derive(Debug, Default)]
pub(super) struct Framing {
    part: Part,
    /// The beginning of the current line.
    line: Vec<u8>,
    /// The last byte of the current line.
    last: u8,
    head: Head,
}

/// The part of a request that comes next.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    /// The rest of a body, in bytes.
    Body(u64),
    ChunkSize,
    /// The rest of a chunk and its line break, in bytes.
    Chunk(u64),
    Trailers,
    /// The request is invalid, and the library will refuse it.
    Unknown,
}

/// The relevant parts of the head read so far.
#[derive(Debug, Default)]
struct Head {
    has_request_line: bool,
    bytes: usize,
    has_host: bool,
    has_encoding: bool,
    has_length: bool,
    length: u64,
}

impl Framing {
    /// Continues with these bytes, which follow the bytes of earlier calls.
    pub(super) fn follow(&mut self, mut bytes: &[u8]) -> Result<(), Ambiguous> {
        while !bytes.is_empty() {
            let (Part::Body(left) | Part::Chunk(left)) = self.part else {
                if self.part == Part::Unknown {
                    return Ok(());
                }
                bytes = self.follow_line(bytes)?;
                continue;
            };
            let taken = left.min(bytes.len() as u64);
            bytes = &bytes[taken as usize..];
            self.part = match (self.part, left - taken) {
                (Part::Body(_), 0) => Part::Head,
                (Part::Body(_), left) => Part::Body(left),
                (_, 0) => Part::ChunkSize,
                (_, left) => Part::Chunk(left),
            };
        }
        Ok(())
    }

    /// Takes bytes up to the end of the line, and returns the rest.
    fn follow_line<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], Ambiguous> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        if self.part == Part::Head {
            self.head.bytes += end.map_or(bytes.len(), |end| end + 1);
            if self.head.bytes > HEAD_BYTES_MAX {
                return Err(Ambiguous::LongHead);
            }
        }
        let part = &bytes[..end.unwrap_or(bytes.len())];
        let room = (LINE_MAX + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(&part[..part.len().min(room)]);
        self.last = part.last().copied().unwrap_or(self.last);
        let Some(end) = end else { return Ok(&[]) };
        if self.last != b'\r' {
            return Err(Ambiguous::BareLineFeed);
        }
        let line = std::mem::take(&mut self.line);
        self.last = 0;
        let is_cut = line.len() > LINE_MAX;
        let line = if is_cut { &line[..] } else { &line[..line.len() - 1] };
        self.part = match self.part {
            Part::Head => self.head.follow(line, is_cut)?,
            Part::ChunkSize => size_of_chunk(line),
            Part::Trailers if line.is_empty() => Part::Head,
            part => part,
        };
        Ok(&bytes[end + 1..])
    }
}

impl Head {
    /// Handles a line without its end. Returns the part that comes next.
    fn follow(&mut self, line: &[u8], is_cut: bool) -> Result<Part, Ambiguous> {
        if !self.has_request_line {
            self.has_request_line = !line.is_empty();
            return Ok(Part::Head);
        }
        if line.is_empty() {
            return self.ended();
        }
        let mut halves = line.splitn(2, |byte| *byte == b':');
        let (name, value) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let repeated = if is("host") {
            std::mem::replace(&mut self.has_host, true).then_some("Host")
        } else if is("content-length") {
            let digits = std::str::from_utf8(value.trim_ascii()).unwrap_or_default();
            // The library refuses a length that is not a number.
            self.length = digits.parse().unwrap_or_default();
            std::mem::replace(&mut self.has_length, true).then_some("Content-Length")
        } else if is("transfer-encoding") {
            if !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return Err(Ambiguous::Encoding);
            }
            std::mem::replace(&mut self.has_encoding, true).then_some("Transfer-Encoding")
        } else {
            return Ok(Part::Head);
        };
        match repeated {
            Some(name) => Err(Ambiguous::Repeated(name)),
            None if is_cut && !is("host") => Err(Ambiguous::TooLong),
            None => Ok(Part::Head),
        }
    }

    fn ended(&mut self) -> Result<Part, Ambiguous> {
        let head = std::mem::take(self);
        match (head.has_encoding, head.has_length) {
            (true, true) => Err(Ambiguous::LengthAndEncoding),
            (true, false) => Ok(Part::ChunkSize),
            (false, true) if head.length > 0 => Ok(Part::Body(head.length)),
            _ => Ok(Part::Head),
        }
    }
}

/// Parses the size line of a chunk, and returns the part of the request that follows.
fn size_of_chunk(line: &[u8]) -> Part {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let size = std::str::from_utf8(&line[..digits]).ok();
    match size.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
        Some(0) => Part::Trailers,
        Some(size) => size.checked_add(2).map_or(Part::Unknown, Part::Chunk),
        None => Part::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds a text in pieces, with pieces of each length.
    fn follow(text: &str) -> Result<Part, Ambiguous> {
        let in_pieces = |length: usize| {
            let mut framing = Framing::default();
            for piece in text.as_bytes().chunks(length) {
                framing.follow(piece)?;
            }
            Ok(framing.part)
        };
        let whole = in_pieces(text.len().max(1));
        for length in [1, 2, 3, 7, 50] {
            assert_eq!(in_pieces(length), whole, "{length}: {text:?}");
        }
        whole
    }

    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[test]
    fn ordinary_requests_follow_each_other() {
        let long = format!("x-long: {}\r\n", "a".repeat(5000));
        for request in [
            GET.to_owned(),
            format!("\r\n\r\n{GET}"),
            format!("GET /{} HTTP/1.1\r\n{long}Host: a\r\n\r\n", "a".repeat(3000)),
            "POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\na\nb\r\n\r\nHost".into(),
            "POST / HTTP/1.1\r\ncontent-LENGTH:0\r\n\r\n".into(),
            "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\na\nb\r\n0\r\n\r\n".into(),
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\na: b\r\n\r\n"
                .into(),
        ] {
            assert_eq!(follow(&request), Ok(Part::Head), "{request:?}");
            let three = format!("{request}{GET}{request}");
            assert_eq!(follow(&three), Ok(Part::Head), "{three:?}");
            // The next request on the connection is checked too.
            let bad = format!("{request}GET / HTTP/1.1\nHost: a\r\n\r\n");
            assert_eq!(follow(&bad), Err(Ambiguous::BareLineFeed), "{bad:?}");
        }
    }

    #[test]
    fn what_two_programs_may_read_in_two_ways_is_refused() {
        let (length, encoding) = ("Content-Length: 1\r\n", "Transfer-Encoding: chunked\r\n");
        let long = format!("Content-Length: {}1\r\n", "0".repeat(100));
        for (headers, wrong) in [
            (format!("{length}{encoding}"), Ambiguous::LengthAndEncoding),
            (format!("{encoding}{length}"), Ambiguous::LengthAndEncoding),
            (format!("{length}{length}"), Ambiguous::Repeated("Content-Length")),
            (format!("{encoding}{encoding}"), Ambiguous::Repeated("Transfer-Encoding")),
            ("Host: a\r\nHost: a\r\n".into(), Ambiguous::Repeated("Host")),
            ("Transfer-Encoding: gzip, chunked\r\n".into(), Ambiguous::Encoding),
            ("Transfer-Encoding: \r\n".into(), Ambiguous::Encoding),
            (long, Ambiguous::TooLong),
            ("x: y\nContent-Length: 1\r\n".into(), Ambiguous::BareLineFeed),
            ("\n".into(), Ambiguous::BareLineFeed),
        ] {
            let request = format!("POST / HTTP/1.1\r\n{headers}\r\n");
            assert_eq!(follow(&request), Err(wrong), "{request:?}");
        }
        let chunks = format!("POST / HTTP/1.1\r\n{encoding}\r\n");
        assert_eq!(follow(&format!("{chunks}1\na\r\n0\r\n\r\n")), Err(Ambiguous::BareLineFeed));
        assert_eq!(follow(&format!("{chunks}0\r\na: b\n\r\n")), Err(Ambiguous::BareLineFeed));
        for unreadable in ["x\r\n", "\r\n", "ffffffffffffffff\r\n", "fffffffffffffffff\r\n"] {
            assert_eq!(follow(&format!("{chunks}{unreadable}\n\n")), Ok(Part::Unknown));
        }
    }
}
