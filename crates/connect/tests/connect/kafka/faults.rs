//! What the source does when the topic is gone or has less than it had.

use serde_json::json;

use super::source::{World, marked};

#[tokio::test(flavor = "multi_thread")]
async fn topic_created_again_halts_until_somebody_decides() {
    let world = World::start("removed", 1, &[]).await;
    let mut connector = world.connected("", "").await;
    world.write(0..5).await;
    world.reseq.has("erp", 5).await;
    world.kafka.delete("removed").await;
    connector.is_held_by("orders/0: halted").await;
    // It has more records than the one before had, so its offsets alone would show nothing.
    world.kafka.create("removed", 1, &[]).await;
    world.write(10..20).await;
    connector.is_held_by("orders/0: halted: erp has a mark of orders/0@").await;
    connector.check_says("its marks: erp has a mark of orders/0@");
    world.reseq.has("erp", 5).await;
    connector.drains().await;
    connector.start(&["--begin-at", "oldest"]);
    let bodies = world.bodies(15).await;
    assert_eq!(bodies[4..6], [json!(4), json!(10)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_beyond_the_mark_halts_until_somebody_decides() {
    let world = World::start("retention", 1, &[]).await;
    let mut connector = world.connected("", "").await;
    world.write(0..5).await;
    world.reseq.has("erp", 5).await;
    connector.drains().await;
    world.write(5..10).await;
    world.kafka.delete_before("retention", 0, 7).await;
    connector.start(&[]);
    connector
        .is_held_by(
            "orders/0: halted: retention/0 begins with 7, and the destination has messages up to 4",
        )
        .await;
    let status = connector.asks("status");
    assert!(status.status.success(), "{status:?}");
    connector.check_says("retention/0 begins with 7");
    connector.drains().await;
    connector.start(&["--begin-at", "oldest"]);
    assert_eq!(world.bodies(8).await[5..], [json!(7), json!(8), json!(9)]);
    // All that is gone was read: it goes on.
    connector.drains().await;
    world.kafka.delete_before("retention", 0, 10).await;
    world.write([10]).await;
    connector.start(&[]);
    world.reseq.has("erp", 9).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn user_logs_in_over_tls_with_a_password() {
    let world = World::start("secure", 1, &[]).await;
    let (plain, secure) = world.kafka.secure();
    let mut connector = world.connector("", "").with(&plain, &secure);
    let check = connector.asks("check");
    assert!(check.status.success(), "{check:?}");
    connector.start(&[]);
    world.write(0..5).await;
    world.reseq.has("erp", 5).await;
    let wrong = secure.replace("\"reseq\"", "\"nobody\"");
    let mut other = world.connector("", "").with(&plain, &wrong);
    other.start(&[]);
    other.is_held_by("orders: halted: Kafka: authentication error").await;
    let untrusted = secure.lines().filter(|line| !line.contains("ca_file"));
    let untrusted = untrusted.collect::<Vec<_>>().join("\n") + "\n";
    let other = world.connector("", "").with(&plain, &untrusted).asks("check");
    assert!(!other.status.success(), "{other:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn added_partition_is_read_from_its_beginning() {
    let world = World::start("widened", 1, &[]).await;
    world.write(0..5).await;
    let mut connector = world.connector("", "");
    connector.start(&["--begin-at", "newest"]);
    connector.is_ready().await;
    // That was for what the topic had then.
    marked(&world.reseq, |mark| mark.ends_with("04")).await;
    world.write(5..10).await;
    world.reseq.has("erp", 5).await;
    world.kafka.widen("widened", 3).await;
    let producer = world.kafka.producer().await;
    for partition in 1..3 {
        let record = krafka::Record::new("widened", "7").partition(partition);
        let _ = producer.send(record).await.unwrap();
    }
    world.reseq.has("erp", 7).await;
    connector.is_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn begin_at_counts_for_a_partition_that_nobody_has_read() {
    let world = World::start("waited", 1, &[]).await;
    world.write(0..5).await;
    // It has the partition, and cannot begin.
    let mut holder =
        world.connector("", "").with("destinations = [\"erp\"]", "destinations = [\"none\"]");
    holder.start(&[]);
    holder.is_held_by("destination none").await;
    let mut connector = world.connector("", "");
    connector.start(&["--begin-at", "newest"]);
    connector.is_ready().await;
    assert_eq!(world.reseq.mark("erp").await, None);
    holder.drains().await;
    marked(&world.reseq, |mark| mark.ends_with("04")).await;
    world.write(5..10).await;
    world.reseq.has("erp", 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_topic_and_destination_are_named_by_check() {
    let world = World::start("checked", 1, &[]).await;
    let good = world.connector("", "").asks("check");
    assert!(good.status.success(), "{good:?}");
    let told = |connector: &crate::connector::Connector| {
        let output = connector.asks("check");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stdout).unwrap()
    };
    let mut missing = world.kafka.source(&world.reseq, "nowhere", "", "");
    let text = told(&missing);
    assert!(text.contains("WRONG orders: the source: topic nowhere does not exist"), "{text}");
    missing.start(&[]);
    missing.is_held_by("orders: halted: topic nowhere does not exist").await;
    let none =
        world.connector("", "").with("destinations = [\"erp\"]", "destinations = [\"none\"]");
    let text = told(&none);
    assert!(text.contains("WRONG orders: destination none"), "{text}");
    let sink = world.kafka.sink(&world.reseq, "nowhere");
    let text = told(&sink);
    assert!(text.contains("ok    out: destination erp"), "{text}");
    assert!(text.contains("ok    out: right to consume"), "{text}");
    assert!(text.contains("WRONG out: topic nowhere"), "{text}");
}
