//! Finds destinations whose definition in force differs from the configuration file of this process.

use super::{Findings, Severity::Warning, named, others_too};
use crate::{Api, views::rfc3339};
use domain::shell::quoted;

/// The most findings that name one destination each.
const NAMED_MAX: usize = 10;

pub(super) async fn check(api: &Api, findings: &mut Findings) {
    let kind = (Warning, "definitions");
    let all = api.in_file.differing();
    for (entry, changes) in all.iter().take(NAMED_MAX) {
        let name = &entry.destination.name;
        let fields = changes.iter().map(|change| change.field.clone()).collect::<Vec<_>>();
        let written = match api.store.versions(name).await {
            Ok(versions) => versions.into_iter().next(),
            Err(error) => {
                findings.cannot_check(&["definitions"], &format!("{name}: {error}."));
                return;
            }
        };
        let written = written.map(|version| {
            let by = version.by.actor_name.unwrap_or(version.by.actor);
            format!(" What runs was written at {} by {by:?}.", rfc3339(version.at_ms))
        });
        let summary = format!(
            "It runs otherwise than the configuration file of the pod {} says ({}).{}",
            api.store.pod(),
            named(&fields),
            written.unwrap_or_default(),
        );
        let quoted = quoted(name.as_str());
        let action = match api.in_file.is_always_written() {
            true => "The next start of this pod writes the file's definition (definitions.file = \"always\").".into(),
            false => format!(
                "If what runs is right, correct the file. If the file is right, find its version (reseq destinations \
                 versions {quoted}) and take it: reseq destinations rollback {quoted} --to VERSION."
            ),
        };
        findings.add(kind, name.as_str(), summary, action);
    }
    let others = all.iter().skip(NAMED_MAX).map(|(entry, _)| entry.destination.name.to_string());
    let action = "Compare them: reseq destinations diff FILE.";
    others_too(others.collect(), kind, "run otherwise than the file says", action, findings);
}
