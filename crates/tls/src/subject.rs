//! Reads the identity in a client's certificate: the subject as a text for people, and the names. Also reads when a
//! certificate ends.

use rustls::pki_types::CertificateDer;
use tokio_rustls::server::TlsStream;
use yasna::{
    ASN1Result, BERReader, BERReaderSeq, Tag,
    models::{GeneralizedTime, ObjectIdentifier, UTCTime},
    tags::{TAG_UTCTIME, TAG_UTF8STRING},
};

use domain::excerpt::excerpt;

/// The names of the attributes that subjects have (RFC 4514, section 3; RFC 5280, appendix A).
const ATTRIBUTES: [(&[u64], &str); 9] = [
    (&[2, 5, 4, 3], "CN"),
    (&[2, 5, 4, 5], "serialNumber"),
    (&[2, 5, 4, 6], "C"),
    (&[2, 5, 4, 7], "L"),
    (&[2, 5, 4, 8], "ST"),
    (&[2, 5, 4, 10], "O"),
    (&[2, 5, 4, 11], "OU"),
    (&[0, 9, 2342, 19_200_300, 100, 1, 25], "DC"),
    (&[1, 2, 840, 113_549, 1, 9, 1], "emailAddress"),
];

/// The extension with other names of the subject (RFC 5280, section 4.2.1.6).
const SUBJECT_ALTERNATIVE_NAME: &[u64] = &[2, 5, 29, 17];
/// The tags of the kinds of names that Reseq uses, and the prefix of each.
const KINDS: [(u64, &str); 3] = [(1, "email:"), (2, "DNS:"), (6, "URI:")];

/// The identity in a client's certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// The subject, such as `CN=ada, O=Example`. Characters that could deceive are escaped.
    pub text: String,
    /// The names: `CN=ada`, `DNS:ada.example`, `URI:spiffe://example/ada`, `email:ada@example.com`.
    pub names: Vec<String>,
}

/// The identity in the certificate that the client has shown.
pub fn subject_of<S>(stream: &TlsStream<S>) -> Option<Subject> {
    let shown = stream.get_ref().1.peer_certificates()?.first()?;
    read(shown)
}

/// The content that Reseq reads from a certificate.
struct Content {
    /// The parts of the subject: `CN=ada`.
    parts: Vec<String>,
    /// The other names.
    names: Vec<String>,
    /// When the certificate ends, in seconds since 1970.
    end: Option<i64>,
}

/// When the certificate ends, in seconds since 1970. `None` if it cannot be read.
pub(super) fn end_of(certificate: &CertificateDer<'_>) -> Option<i64> {
    content(certificate)?.end
}

fn read(certificate: &CertificateDer<'_>) -> Option<Subject> {
    let Content { parts, mut names, .. } = content(certificate)?;
    let text = excerpt(parts.join(", ").as_bytes());
    names.extend(parts.into_iter().filter(|part| part.starts_with("CN=")));
    Some(Subject { text, names })
}

fn content(certificate: &CertificateDer<'_>) -> Option<Content> {
    let read = yasna::parse_der(certificate, |reader| {
        reader.read_sequence(|certificate| {
            let read = certificate.next().read_sequence(signed_part)?;
            // Skips the algorithm of the signature, and the signature.
            certificate.next().read_der()?;
            certificate.next().read_der()?;
            Ok(read)
        })
    });
    read.ok()
}

/// Reads the end, the subject and its other names from the signed part of a certificate (RFC 5280, section 4.1).
fn signed_part(reader: &mut BERReaderSeq<'_, '_>) -> ASN1Result<Content> {
    reader.read_optional(|version| version.read_tagged(Tag::context(0), |it| it.read_der()))?;
    // Skips the serial number, the algorithm and the issuer.
    for _ in 0..3 {
        reader.next().read_der()?;
    }
    let end = reader.next().read_sequence(|validity| {
        validity.next().read_der()?;
        validity.next().read_tagged_der()
    })?;
    let end = match end.tag() {
        TAG_UTCTIME => UTCTime::parse(end.value()).map(|end| end.datetime().unix_timestamp()),
        _ => GeneralizedTime::parse(end.value()).map(|end| end.datetime().unix_timestamp()),
    };
    let mut parts = Vec::new();
    reader.next().read_sequence_of(|names| {
        names.read_set_of(|attribute| {
            parts.push(attribute.read_sequence(|pair| {
                let name = name_of(&pair.next().read_oid()?);
                Ok(format!("{name}={}", text_of(pair.next())?))
            })?);
            Ok(())
        })
    })?;
    // Skips the key. The fields of version 3 follow.
    reader.next().read_der()?;
    let mut names = Vec::new();
    while let Some(more) = reader.read_optional(|more| more.read_tagged_der())? {
        if more.tag() == Tag::context(3) {
            // The certificate itself is valid, so unreadable names count as no names.
            names = yasna::parse_der(more.value(), extensions).unwrap_or_default();
        }
    }
    Ok(Content { parts, names, end })
}

/// The other names in the extensions of a certificate.
fn extensions(reader: BERReader<'_, '_>) -> ASN1Result<Vec<String>> {
    let mut names = Vec::new();
    reader.read_sequence_of(|extension| {
        let (oid, value) = extension.read_sequence(|parts| {
            let oid = parts.next().read_oid()?;
            parts.read_default(false, |critical| critical.read_bool())?;
            Ok((oid, parts.next().read_bytes()?))
        })?;
        if oid.components().as_slice() == SUBJECT_ALTERNATIVE_NAME {
            yasna::parse_der(&value, |all| {
                all.read_sequence_of(|name| {
                    let name = name.read_tagged_der()?;
                    let kind = KINDS.iter().find(|(tag, _)| name.tag() == Tag::context(*tag));
                    if let (Some((_, kind)), Ok(text)) = (kind, std::str::from_utf8(name.value())) {
                        names.push(format!("{kind}{text}"));
                    }
                    Ok(())
                })
            })?;
        }
        Ok(())
    })?;
    Ok(names)
}

fn name_of(oid: &ObjectIdentifier) -> String {
    let known = ATTRIBUTES.iter().find(|(numbers, _)| *numbers == oid.components().as_slice());
    known.map_or_else(|| oid.to_string(), |(_, name)| (*name).to_owned())
}

/// The value of an attribute. Certificates today use only kinds of text that are valid UTF-8.
fn text_of(reader: BERReader<'_, '_>) -> ASN1Result<String> {
    let value = reader.read_tagged_der()?;
    let is_text = value.tag() == TAG_UTF8STRING || value.value().is_ascii();
    Ok(if is_text { String::from_utf8_lossy(value.value()).into_owned() } else { "?".to_owned() })
}
