//! Renders series in Prometheus's text format, for metrics whose series can end. The recorder would keep a series for
//! ever.

use std::fmt::Write;

use super::names;

/// Appends a metric with its series. Each series has labels and a value.
pub(super) fn render(
    text: &mut String,
    metric: &str,
    series: impl IntoIterator<Item = (String, f64)>,
) {
    let (help, kind) = (names::help(metric), names::kind(metric).as_str());
    let _ = writeln!(text, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
    for (labels, value) in series {
        let _ = match labels.is_empty() {
            true => writeln!(text, "{metric} {value}"),
            false => writeln!(text, "{metric}{{{labels}}} {value}"),
        };
    }
    text.push('\n');
}

/// A label.
pub(super) fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}
