//! Long bodies. Ledger and journal record a short form, which names the length. Requests carry
//! the long form, whose padding is derived from the short form.

/// The short form of a body of this many bytes.
pub fn short_form(producer: &str, number: usize, bytes: usize) -> String {
    format!("{{\"from\":\"{producer}\",\"long\":{bytes},\"number\":{number}}}")
}

/// The body to send: unchanged, unless it is the short form of a long one.
pub fn long_form(body: &str) -> String {
    let Some(bytes) = field(body, "\"long\":") else { return body.to_owned() };
    let (number, Some(open)) = (field(body, "\"number\":"), body.strip_suffix('}')) else {
        return body.to_owned();
    };
    let frame = open.len() + PAD.len() + "\"}".len();
    let bytes = bytes.saturating_sub(frame);
    let unit = format!("{:016}", number.unwrap_or_default());
    let mut pad = unit.repeat(bytes.div_ceil(unit.len()));
    pad.truncate(bytes);
    format!("{open}{PAD}{pad}\"}}")
}

/// The form to record for a received body: the short form if it is exactly a long form, with or
/// without the mark of a transform; otherwise unchanged.
pub fn written_down(body: String) -> String {
    let Some(at) = body.find(PAD) else { return body };
    let rest = &body[at + PAD.len()..];
    let Some(end) = rest.find('"') else { return body };
    let short = format!("{}{}", &body[..at], &rest[end + 1..]);
    let inner = short.strip_prefix("{\"transformed\":").and_then(|body| body.strip_suffix('}'));
    let expected = match inner {
        Some(inner) => super::transformer::transformed(&long_form(inner)),
        None => long_form(&short),
    };
    if expected == body { short } else { body }
}

const PAD: &str = ",\"pad\":\"";

fn field(body: &str, name: &str) -> Option<usize> {
    let rest = &body[body.find(name)? + name.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}
