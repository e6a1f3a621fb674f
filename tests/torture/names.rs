//! Replaces the addresses of servers in answers with the addresses of their links.

use crate::link::Ports;

/// The name of a loopback host in an answer. Its port follows.
const HOST: &[u8] = b"127.0.0.1";
/// The possible texts between host and port: in a redirection, and in the arrays of `CLUSTER
/// SLOTS` and of `SENTINEL GET-MASTER-ADDR-BY-NAME`.
const BETWEEN: [&[u8]; 3] = [b":", b"\r\n:", b"\r\n$5\r\n"];
/// All ports have this many digits, so an answer keeps its length.
const DIGITS: usize = 5;

/// Translates the answers of one connection.
#[derive(Default)]
pub struct Names {
    pub ports: Ports,
    /// The end of the received bytes, if a name may begin there. No answer ends within a name.
    pub kept: Vec<u8>,
}

impl Names {
    /// The bytes to forward after receiving these.
    pub fn translated(&mut self, came: &[u8]) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.kept);
        bytes.extend_from_slice(came);
        let Some(ports) = self.ports.get() else { return bytes };
        let mut at = 0;
        while let Some(found) = find(&bytes[at..]) {
            let behind = at + found + HOST.len();
            match digits_at(&bytes, behind) {
                Digits::At(from) => {
                    let text = std::str::from_utf8(&bytes[from..from + DIGITS]).ok();
                    let port = text.and_then(|text| text.parse().ok());
                    if let Some(link) = port.and_then(|port: u16| ports.get(&port)) {
                        bytes[from..from + DIGITS].copy_from_slice(link.to_string().as_bytes());
                    }
                }
                Digits::NotYet => {
                    self.kept = bytes.split_off(at + found);
                    return bytes;
                }
                Digits::No => {}
            }
            at = behind;
        }
        let from = (1..HOST.len()).rev().find(|count| bytes[at..].ends_with(&HOST[..*count]));
        self.kept = bytes.split_off(bytes.len() - from.unwrap_or_default());
        bytes
    }
}

enum Digits {
    At(usize),
    /// The rest has not arrived.
    NotYet,
    No,
}

fn digits_at(bytes: &[u8], behind: usize) -> Digits {
    let rest = &bytes[behind..];
    for between in BETWEEN {
        let common = rest.len().min(between.len());
        if rest[..common] != between[..common] {
            continue;
        }
        let digits = rest.iter().skip(between.len()).take_while(|byte| byte.is_ascii_digit());
        match digits.count() {
            DIGITS.. => return Digits::At(behind + between.len()),
            some if between.len().max(common) + some >= rest.len() => return Digits::NotYet,
            _ => {}
        }
    }
    Digits::No
}

/// The position of the first [`HOST`]. Uses the C library: long bodies pass here, and tests are
/// compiled without optimisation.
fn find(bytes: &[u8]) -> Option<usize> {
    let from = bytes.as_ptr();
    // SAFETY: both pointers are valid for the given lengths, and memmem keeps neither.
    let found = unsafe { libc::memmem(from.cast(), bytes.len(), HOST.as_ptr().cast(), HOST.len()) };
    (!found.is_null()).then(|| found as usize - from as usize)
}

#[test]
fn server_names_become_link_names_however_answer_is_cut() {
    let ports = Ports::default();
    let _ = ports.set([(12345, 40001), (12346, 40002)].into());
    let answers = b"-MOVED 7 127.0.0.1:12345\r\n*2\r\n$9\r\n127.0.0.1\r\n$5\r\n12346\r\n\
        *3\r\n$9\r\n127.0.0.1\r\n:12345\r\n$3\r\n127\r\n127.0.0.1:9\r\n12345\r\nhttp://127.0.0.1:23456/in\r\n";
    let expected = String::from_utf8_lossy(answers)
        .replace("127.0.0.1:12345", "127.0.0.1:40001")
        .replace("$5\r\n12346", "$5\r\n40002")
        .replace("127.0.0.1\r\n:12345", "127.0.0.1\r\n:40001");
    for cut in 0..answers.len() {
        let mut names = Names { ports: ports.clone(), kept: Vec::new() };
        let mut passed = names.translated(&answers[..cut]);
        passed.extend(names.translated(&answers[cut..]));
        assert_eq!(String::from_utf8_lossy(&passed), expected, "cut at {cut}");
        assert!(names.kept.is_empty());
    }
}
