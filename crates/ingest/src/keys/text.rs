//! Converts the JSON output of an expression to the text of a key.

/// The most digits of a number, including the zeros that its exponent adds.
const DIGITS_MAX: i64 = 300;

/// The text of a string, or the decimal digits of a number. Other values are not keys.
pub(super) fn of_json(json: &[u8]) -> Result<String, String> {
    let other = |kind: &str| Err(format!("the expression gives {kind}, not a string or a number"));
    match json.first() {
        Some(b'"') => serde_json::from_slice(json)
            .map_err(|error| format!("the expression gives no valid string: {error}")),
        Some(b'-' | b'0'..=b'9') => decimal(json),
        Some(b'[') => other("an array"),
        Some(b'{') => other("an object"),
        _ => other(&String::from_utf8_lossy(json)),
    }
}

/// A JSON number without exponent and without superfluous zeros, so that equal numbers make equal keys.
fn decimal(json: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(json);
    read_decimal(&text).ok_or_else(|| format!("the expression gives the number {text:.40}"))
}

fn read_decimal(text: &str) -> Option<String> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let zeros = digits.len() - digits.trim_start_matches('0').len();
    let exponent: i64 = exponent.parse().ok()?;
    // The number of digits before the point.
    let point = (whole.len() as i64).checked_add(exponent)?.checked_sub(zeros as i64)?;
    let digits = digits.trim_matches('0');
    if digits.is_empty() {
        return Some("0".to_owned());
    }
    let length = digits.len() as i64;
    if point.abs() > DIGITS_MAX || length > DIGITS_MAX {
        return None;
    }
    let zeros = |count: i64| "0".repeat(count.max(0) as usize);
    let text = match point {
        ..=0 => format!("0.{}{digits}", zeros(-point)),
        _ if point >= length => format!("{digits}{}", zeros(point - length)),
        _ => format!("{}.{}", &digits[..point as usize], &digits[point as usize..]),
    };
    Some(format!("{sign}{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_itself_and_a_number_its_digits() {
        for (json, key) in [
            (r#""acct-7""#, "acct-7"),
            (r#""kont\u014d \"7\"""#, "kontō \"7\""),
            (r#""""#, ""),
            ("7", "7"),
            ("-12", "-12"),
            ("0", "0"),
            ("-0", "0"),
            ("0.000e9", "0"),
            ("7.0", "7"),
            ("7.50", "7.5"),
            ("1e3", "1000"),
            ("1.5E+2", "150"),
            ("12.5e-1", "1.25"),
            ("0.00120", "0.0012"),
            ("-1.5e-3", "-0.0015"),
            ("100000000000000000000", "100000000000000000000"),
            ("1e20", "100000000000000000000"),
        ] {
            assert_eq!(of_json(json.as_bytes()), Ok(key.to_owned()), "{json}");
        }
    }

    #[test]
    fn nothing_else_is_a_key() {
        for (json, part) in [
            ("null", "gives null, not a string"),
            ("true", "gives true, not a string"),
            ("[1]", "gives an array"),
            (r#"{"a":1}"#, "gives an object"),
            ("", "gives , not"),
            ("1e301", "gives the number 1e301"),
            ("1e-302", "gives the number"),
            ("1e99999999999999999999", "gives the number"),
            (&"7".repeat(301), "gives the number"),
        ] {
            let problem = of_json(json.as_bytes()).unwrap_err();
            assert!(problem.contains(part) && problem.len() < 120, "{json}: {problem}");
        }
    }
}
