//! The runner process: evaluates expressions for inputs, one at a time, within the limits of its
//! process. It keeps compiled expressions.

use std::{
    io::{self, Write},
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread,
};

use bytes::Bytes;
use jaq_json::{
    Map, Val, read,
    write::{Pp, write},
};
use lru::LruCache;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::de::IgnoredAny;

use super::{
    encoding::decoded,
    protocol::{self, Evaluated, GREETING, Input, READY, Setup, VERSION},
};
use domain::{Expression, excerpt::excerpt, message::joined_headers};

/// The address space of a runner, in bytes, including the program itself.
pub const MEMORY_BYTES_MAX: u64 = 512 << 20;
/// The stack for recursion in an expression.
const STACK_BYTES: usize = 64 << 20;
/// The deepest allowed nesting of a body, because the parser recurses.
const NESTING_MAX: usize = 1000;
/// The most compiled expressions that a runner keeps. A new expression replaces the least
/// recently used one.
pub(super) const COMPILED_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// Evaluates the inputs from standard input. When standard input is closed, the process ends, even during an
/// evaluation: so a killed service leaves no runner behind.
pub fn run() -> io::Result<()> {
    bound()?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout());
    output.write_all(GREETING)?;
    protocol::write(&mut output, &VERSION)?;
    let Some(setup) = protocol::read::<Setup>(&mut input)? else { return Ok(()) };
    let (sender, inputs) = mpsc::channel();
    thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        let answering = catch_unwind(AssertUnwindSafe(|| answer_all(&setup, &inputs)));
        // Exit even after a panic, so that the service does not wait for an answer.
        std::process::exit(i32::from(!matches!(answering, Ok(Ok(())))));
    })?;
    while let Some(question) = protocol::read(&mut input)? {
        if sender.send(question).is_err() {
            break;
        }
    }
    Ok(())
}

/// Limits memory to [`MEMORY_BYTES_MAX`], and prevents a core file.
fn bound() -> io::Result<()> {
    let to = |max| Rlimit { current: Some(max), maximum: Some(max) };
    setrlimit(Resource::Core, to(0))?;
    Ok(setrlimit(Resource::As, to(MEMORY_BYTES_MAX))?)
}

fn answer_all(setup: &Setup, questions: &mpsc::Receiver<(String, Input)>) -> io::Result<()> {
    protocol::write(&mut io::stdout(), &READY)?;
    let mut compiled = LruCache::new(COMPILED_MAX);
    for (text, input) in questions {
        let expression = compiled.get_or_insert_ref(text.as_str(), || Expression::parse(&text));
        let evaluated = match expression {
            Ok(expression) => evaluate(expression, input, setup.output_bytes_max),
            Err(problem) => {
                Err(format!("the expression is wrong: {}", excerpt(problem.as_bytes())))
            }
        };
        let answer = evaluated.unwrap_or_else(Evaluated::Failed);
        protocol::write(&mut io::stdout(), &answer)?;
    }
    Ok(())
}

/// The result of the expression, or the reason why it has none.
fn evaluate(
    expression: &Expression,
    input: Input,
    output_bytes_max: usize,
) -> Result<Evaluated, String> {
    let body = read_body(&decoded(&input, output_bytes_max)?)?;
    let mut outputs = expression.outputs(body, variables(input));
    let raised = |error: String| format!("the expression failed: {}", excerpt(error.as_bytes()));
    let Some(output) = outputs.next() else { return Ok(Evaluated::None) };
    let output = output.map_err(raised)?;
    if let Some(second) = outputs.next() {
        second.map_err(raised)?;
        return Ok(Evaluated::Several);
    }
    written(&output, output_bytes_max).map(Evaluated::One)
}

fn variables(input: Input) -> [Val; 5] {
    let mut headers = Map::<Val, Val>::default();
    let joined = joined_headers(&input.headers);
    headers.extend(joined.into_iter().map(|(name, value)| (Val::from(name), Val::from(value))));
    [
        input.id.map_or(Val::Null, Val::from),
        Val::from(input.destination),
        input.sequence.map_or(Val::Null, |sequence| Val::from(sequence as usize)),
        input.key.map_or(Val::Null, Val::from),
        Val::obj(headers),
    ]
}

fn read_body(body: &[u8]) -> Result<Val, String> {
    let not_json = |error: &dyn std::fmt::Display| format!("the body is not JSON: {error}");
    // jaq accepts more than JSON (NaN, comments, bytes).
    check_json(body).map_err(|error| not_json(&error))?;
    if nesting(body) > NESTING_MAX {
        return Err(format!("the body nests deeper than {NESTING_MAX}"));
    }
    read::parse_single(body).map_err(|error| not_json(&error))
}

fn check_json(bytes: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| error.to_string())?;
    Ok(())
}

/// The depth of arrays and objects in `json`.
fn nesting(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_text, mut escaped) = (false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// The value as compact JSON.
fn written(value: &Val, bytes_max: usize) -> Result<Bytes, String> {
    let mut bounded = Bounded { bytes: Vec::new(), bytes_max };
    write(&mut bounded, &Pp::default(), 0, value)
        .map_err(|_| format!("the output is longer than {bytes_max} bytes"))?;
    // jaq also writes more than JSON.
    check_json(&bounded.bytes).map_err(|_| {
        "the output is not JSON: it has a number such as nan or infinite, bytes, or a key that is \
         not a text"
            .to_owned()
    })?;
    Ok(bounded.bytes.into())
}

/// A buffer that accepts at most `bytes_max`.
struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Write for Bounded {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + part.len() > self.bytes_max {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_counted_outside_of_texts() {
        for (json, depth) in
            [("1", 0), ("[]", 1), (r#"{"a":[{}],"b":[]}"#, 3), (r#"["[[[","\"[[",["\\"]]"#, 2)]
        {
            assert_eq!(nesting(json.as_bytes()), depth, "{json}");
        }
    }

    #[test]
    fn only_json_is_written_and_only_so_much() {
        let value = read::parse_single(br#"{"a": [1, 1.50, 100000000000000000000, "x\u0007"]}"#);
        let json = br#"{"a":[1,1.50,100000000000000000000,"x\u0007"]}"#;
        let value = value.unwrap();
        assert_eq!(written(&value, json.len()).unwrap(), &json[..]);
        assert!(written(&value, json.len() - 1).unwrap_err().contains("longer than"));
        for other in [Val::from(f64::NAN), Val::byte_str("x"), Val::utf8_str(&b"\xff"[..])] {
            assert!(written(&other, 100).unwrap_err().contains("not JSON"), "{other}");
        }
    }
}
