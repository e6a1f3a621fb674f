//! `reseq doctor`: reports risks in the deployment, and what to do about each.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use clap::Args;
use serde_json::Value;

use super::{
    client_args::ClientArgs,
    exit::Exit,
    output::{counted, text_of},
    style,
    watch::WatchArgs,
};

/// The arguments of `reseq doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Runs the checks and prints the findings. The worst finding of the last report decides the exit code.
pub async fn run(args: DoctorArgs) -> anyhow::Result<Exit> {
    let DoctorArgs { client, watch } = args;
    let mut exit = Exit::Ok;
    let shown = async || {
        let report = client.get("/v1/doctor").await?;
        exit = match (number_of(&report, "error"), number_of(&report, "warning")) {
            (0, 0) if not_checked(&report).next().is_none() => Exit::Ok,
            // A check that was not made must be visible in the exit code.
            (0, _) => Exit::Warnings,
            _ => Exit::Unhealthy,
        };
        client.shown(&report, |report| shown(report))
    };
    watch.print(client.output, shown).await?;
    Ok(exit)
}

fn findings(report: &Value) -> impl Iterator<Item = &Value> {
    report["findings"].as_array().into_iter().flatten()
}

fn not_checked(report: &Value) -> impl Iterator<Item = &Value> {
    report["not_checked"].as_array().into_iter().flatten()
}

fn number_of(report: &Value, severity: &str) -> u64 {
    findings(report).filter(|finding| finding["severity"] == severity).count() as u64
}

fn shown(report: &Value) -> String {
    let mut text = String::new();
    for finding in findings(report) {
        let severity = text_of(finding, "severity");
        let style = match severity.as_str() {
            "error" => style::BAD,
            "warning" => style::WARNING,
            _ => style::DIM,
        };
        let (check, subject) = (text_of(finding, "check"), text_of(finding, "subject"));
        let subject = if subject.is_empty() { subject } else { format!("{subject}: ") };
        let severity = style::paint(style, &format!("{severity:<8}"));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{severity} {check}: {subject}{}", text_of(finding, "summary"));
        let _ = writeln!(
            text,
            "         {} {}",
            style::paint(style::BOLD, "do"),
            text_of(finding, "action")
        );
    }
    let mut unknown: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for one in not_checked(report) {
        unknown.entry(text_of(one, "reason")).or_default().insert(text_of(one, "check"));
    }
    for (reason, checks) in &unknown {
        let checks = checks.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let word = style::paint(style::WARNING, &format!("{:<8}", "unknown"));
        let _ = writeln!(text, "{word} not checked: {checks}: {reason}");
    }
    let unknown: BTreeSet<&String> = unknown.values().flatten().collect();
    let checks: Vec<&str> =
        report["checks"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let failed: BTreeSet<String> = findings(report).map(|found| text_of(found, "check")).collect();
    let passed: Vec<&str> =
        checks.iter().copied().filter(|check| !failed.contains(*check)).collect();
    let passed: Vec<&str> =
        passed.into_iter().filter(|check| !unknown.iter().any(|one| one == check)).collect();
    if !passed.is_empty() {
        let ok = style::paint(style::GOOD, &format!("{:<8}", "ok"));
        let _ = writeln!(text, "{ok} {}", passed.join(", "));
    }
    let (errors, warnings) = (number_of(report, "error"), number_of(report, "warning"));
    let not_checked = match unknown.len() {
        0 => String::new(),
        count => format!(", {count} not checked"),
    };
    let _ = writeln!(
        text,
        "{}: {} passed{not_checked}; {}, {} (pod {}, version {})",
        counted(checks.len() as u64, "check"),
        passed.len(),
        counted(errors, "error"),
        counted(warnings, "warning"),
        text_of(report, "pod"),
        text_of(report, "version"),
    );
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_finding_says_what_to_do_and_the_rest_has_passed() {
        let finding = |severity: &str, subject: &str| {
            json!({"severity": severity, "check": "redis_memory", "subject": subject,
                "summary": "It is full\u{1b}.", "action": "Raise maxmemory."})
        };
        let report = json!({"pod": "ab12", "version": "0.1.0",
            "checks": ["redis_memory", "clocks", "pods"],
            "findings": [finding("error", "redis:6379"), finding("info", "")]});
        let text = anstream::adapter::strip_str(&shown(&report)).to_string();
        let expected = "error    redis_memory: redis:6379: It is full\\u{1b}.\n\
             \u{20}        do Raise maxmemory.\n\
             info     redis_memory: It is full\\u{1b}.\n\
             \u{20}        do Raise maxmemory.\n\
             ok       clocks, pods\n\
             3 checks: 2 passed; 1 error, 0 warnings (pod ab12, version 0.1.0)\n";
        assert_eq!(text, expected);

        let reason = "10.0.0.7:6379 does not answer.";
        let unknown = |check: &str| json!({"check": check, "reason": reason});
        let report = json!({"pod": "ab12", "version": "0.1.0", "findings": [],
            "checks": ["redis_memory", "clocks", "pods"],
            "not_checked": [unknown("redis_memory"), unknown("clocks")]});
        let text = anstream::adapter::strip_str(&shown(&report)).to_string();
        let expected = format!(
            "unknown  not checked: clocks, redis_memory: {reason}\n\
             ok       pods\n\
             3 checks: 1 passed, 2 not checked; 0 errors, 0 warnings (pod ab12, version 0.1.0)\n"
        );
        assert_eq!(text, expected);
    }
}
