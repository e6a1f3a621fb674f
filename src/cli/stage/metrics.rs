//! What the processes say of themselves on `/metrics`, as far as it is needed here.

use reqwest::Client;

/// How many partitions a sender owns; `None` when it does not say.
pub async fn partitions_owned(client: &Client, url: &str) -> Option<f64> {
    value(&read(client, url).await?, "reseq_sender_partitions_owned", &[])
}

/// How many attempts at deliveries to a destination a sender has made; `None` when it does not
/// say, as before its first.
pub async fn deliveries(client: &Client, url: &str, destination: &str) -> Option<f64> {
    let label = format!("destination=\"{destination}\"");
    value(&read(client, url).await?, "reseq_sender_deliveries_total", &[&label])
}

async fn read(client: &Client, url: &str) -> Option<String> {
    let answer = client.get(format!("{url}/metrics")).send().await.ok()?;
    answer.error_for_status().ok()?.text().await.ok()
}

/// The sum of a metric over all lines that carry these labels, in the text format of Prometheus.
fn value(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let of_line = |line: &str| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '{']))?;
        let (head, value) = rest.rsplit_once(' ')?;
        labels.iter().all(|label| head.contains(label)).then(|| value.parse::<f64>().ok())?
    };
    text.lines().filter_map(of_line).reduce(|sum, value| sum + value)
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
        assert_eq!(value(text, "sent", &["destination=\"a\""]), Some(5.0));
        assert_eq!(value(text, "sent", &[]), Some(15.0));
        assert_eq!(value(text, "owned", &[]), Some(32.0));
        assert_eq!(value(text, "gone", &[]), None);
    }
}
