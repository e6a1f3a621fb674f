//! Tests Redis over mutual TLS: journeys, refusals, and certificates that change meanwhile.

use crate::{
    support::{
        certificates::{Authority, Identity, replace},
        pods::refused_start,
        redis::{TestCluster, TestRedis},
        sentinel::TestSentinel,
    },
    topologies::journey::Journey,
};

const COUNT: usize = 50;

/// The section with the certificates of Reseq.
fn section(authority: &Authority, identity: &Identity) -> String {
    format!(
        "[redis.tls]\nca_file = {:?}\ncertificate_file = {:?}\nkey_file = {:?}",
        authority.ca_file(),
        identity.certificate,
        identity.key
    )
}

#[tokio::test]
async fn a_journey_goes_on_with_new_certificates_of_another_authority() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let redis = TestRedis::start_over_tls(&old).await;
    let identity = old.issue("reseq");
    let journey =
        Journey::start_with(redis.url(), &section(&old, &identity), &["erp", "crm"]).await;
    journey.produce("before", COUNT).await;

    // From now on, both sides trust only the new authority.
    let mut connection = redis.connection().await;
    let of_redis = new.issue("redis");
    replace(&old.ca_file(), &new.pem());
    new.issue_into("reseq", &identity);
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("tls-cert-file").arg(of_redis.certificate.to_str().unwrap());
    set.arg("tls-key-file").arg(of_redis.key.to_str().unwrap());
    set.arg("tls-ca-cert-file").arg(new.ca_file().to_str().unwrap());
    set.exec_async(&mut connection).await.unwrap();
    journey.produce("on the connections there are", COUNT).await;
    for kind in ["normal", "pubsub"] {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg(kind).arg("SKIPME").arg("yes");
        let killed: usize = kill.query_async(&mut connection).await.unwrap();
        assert!(killed > 0, "there was no connection of type {kind}");
    }
    journey.produce("after", COUNT).await;
    journey.end().await;
    let wakes = journey.wakes_of("erp", 5).await;
    assert!(wakes >= 1.0, "{wakes} wake-ups a message");
    let log = journey.pods[0].log();
    assert!(log.contains("certificates were read again"), "{log}");
}

#[tokio::test]
async fn a_journey_goes_over_sentinels_through_a_failover() {
    let authority = Authority::new("ours");
    let redis = TestSentinel::start_at(1, "", Some(&authority)).await;
    let lines = format!("replicas = 1\n{}", section(&authority, &authority.issue("reseq")));
    let journey = Journey::start_with(&redis.url(), &lines, &["erp"]).await;
    journey.produce("before", COUNT).await;
    redis.in_sync().await;
    redis.failover().await;
    redis.in_sync().await;
    journey.produce("after", COUNT).await;
    journey.end().await;
}

#[tokio::test]
async fn a_journey_goes_over_a_cluster_while_a_slot_moves() {
    let authority = Authority::new("ours");
    let cluster = TestCluster::start_over_tls(&authority).await;
    let lines = section(&authority, &authority.issue("reseq"));
    let journey = Journey::start_with(&cluster.url(), &lines, &["erp", "crm", "log"]).await;
    journey.produce("before", COUNT).await;
    let key = store::Keys::new("reseq", 64).destination(&"erp".parse().unwrap()).hash();
    let slot: u16 = cluster.nodes[0].ask(&["CLUSTER", "KEYSLOT", &key]).await.unwrap();
    let other = (cluster.primary_of(slot).await + 1) % 3;
    cluster.move_slot(slot, other).await;
    journey.produce("after", COUNT).await;
    journey.end().await;
}

#[tokio::test]
async fn redis_of_unknown_authority_and_invalid_file_are_refused() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let redis = TestRedis::start_over_tls(&ours).await;
    let refused = async |lines: &str| {
        let url = redis.url();
        let config = format!("[http]\nlisten='127.0.0.1:0'\n[redis]\nurl = '{url}'\n{lines}\n");
        let (status, said) = refused_start(&config).await;
        assert_eq!(status.code(), Some(1), "{said}");
        said
    };
    let identity = ours.issue("reseq");
    let said = refused(&section(&other, &identity)).await;
    assert!(said.contains("UnknownIssuer") && said.contains(redis.url()), "{said}");
    // Redis requires a certificate.
    let said = refused(&format!("[redis.tls]\nca_file = {:?}", ours.ca_file())).await;
    assert!(said.contains("CertificateRequired"), "{said}");
    let stranger = Identity { key: other.issue("reseq").key, ..identity.clone() };
    let said = refused(&section(&ours, &stranger)).await;
    assert!(said.contains("redis.tls.key_file"), "{said}");
    let nothing = Identity { certificate: identity.key.clone(), ..identity.clone() };
    let said = refused(&section(&ours, &nothing)).await;
    assert!(said.contains("redis.tls.certificate_file"), "{said}");
    let said = refused("[redis.tls]\nca_file = '/nowhere/ca.pem'").await;
    assert!(said.contains("redis.tls.ca_file") && said.contains("/nowhere/ca.pem"), "{said}");
}
