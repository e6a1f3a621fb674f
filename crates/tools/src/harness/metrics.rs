//! Reads some metrics of the processes.

use std::collections::BTreeMap;

use reqwest::Client;

/// The metric that counts ended delivery attempts.
const DELIVERIES: &str = "reseq_sender_deliveries_total";

/// How many partitions a sender owns; `None` if the sender does not answer.
pub(super) async fn partitions_owned(client: &Client, url: &str) -> Option<f64> {
    value(&read(client, url).await?, "reseq_sender_partitions_owned")
}

/// The delivery attempts of a sender by destination; `None` if the sender does not answer.
pub(super) async fn deliveries(client: &Client, url: &str) -> Option<BTreeMap<String, f64>> {
    Some(by_label(&read(client, url).await?, DELIVERIES, "destination"))
}

/// How many times a process has called a script, alone or as a block of a call; `None` if the process does not answer.
pub async fn script_calls(client: &Client, url: &str) -> Option<f64> {
    let text = read(client, url).await?;
    Some(value(&text, "reseq_redis_call_seconds_count").unwrap_or_default())
}

async fn read(client: &Client, url: &str) -> Option<String> {
    let answer = client.get(format!("{url}/metrics")).send().await.ok()?;
    answer.error_for_status().ok()?.text().await.ok()
}

/// The sum of a metric over all its lines, in Prometheus's text format.
fn value(text: &str, name: &str) -> Option<f64> {
    let of_line = |line: &str| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '{']))?;
        rest.rsplit_once(' ')?.1.parse::<f64>().ok()
    };
    text.lines().filter_map(of_line).reduce(|sum, value| sum + value)
}

/// The sums of a metric, by the values of this label.
fn by_label(text: &str, name: &str, label: &str) -> BTreeMap<String, f64> {
    let begin = format!("{label}=\"");
    let mut sums = BTreeMap::new();
    for line in text.lines() {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with('{'));
        let Some((head, value)) = rest.and_then(|rest| rest.rsplit_once(' ')) else { continue };
        let of_label = head.split_once(&begin).and_then(|(_, rest)| rest.split_once('"'));
        if let (Some((of_label, _)), Ok(value)) = (of_label, value.parse::<f64>()) {
            *sums.entry(of_label.to_owned()).or_default() += value;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labelled_lines() {
        let text = "# TYPE sent counter\n\
            sent{destination=\"a\",outcome=\"accepted\"} 3\n\
            sent{destination=\"a\",outcome=\"refused\"} 2\n\
            sent{destination=\"b\",outcome=\"accepted\"} 10\n\
            sent_other 7\n\
            owned 32\n";
        assert_eq!(value(text, "sent"), Some(15.0));
        assert_eq!(value(text, "owned"), Some(32.0));
        assert_eq!(value(text, "gone"), None);
        let by_destination = by_label(text, "sent", "destination");
        assert_eq!(by_destination, [("a".to_owned(), 5.0), ("b".to_owned(), 10.0)].into());
        assert!(by_label(text, "owned", "destination").is_empty());
    }
}
