//! Scenarios about time: takeover waits, leases, and a clock of Redis that steps.

use std::time::Duration;

use super::{
    scenario::{Anomaly, Manners, Scenario},
    scenarios::{ALL, Ended, SOON, short_leases},
    support::control::Visit,
};

/// This many renewals prove that several leases have passed, and that the owner has done its other work.
const MANY: usize = 12;

/// Redis loses the key of a frozen owner, and another sender takes the partition. The new owner
/// must wait before it delivers.
pub async fn owner_is_forgotten(bug: Option<String>) -> Ended {
    let roles = ["ingest", "sender", "sender"];
    let manners = Manners::default();
    let mut scenario = Scenario::start(bug.as_deref(), &roles, manners, SOON, short_leases).await;
    let verdict = async {
        scenario.send(5).await?;
        scenario.settles().await?;
        let renews = |visit: &Visit| visit.point == "owner.renewing";
        let owner = scenario.control.sees("an owner", 0, 1, renews).await.process;
        let at = scenario.pods.iter().position(|pod| pod.id() == owner).unwrap();
        scenario.pods[at].freeze();
        let since = scenario.control.count();
        // Make Redis look like another server, without the owner key.
        for words in [
            ["HSET", "reseq:{p00}:epoch", "server", "another"].as_slice(),
            ["DEL", "reseq:{p00}:owner"].as_slice(),
        ] {
            scenario.redis.ask::<u64>(words).await.unwrap();
        }
        let other = |visit: &Visit| renews(visit) && visit.process != owner;
        scenario.control.sees("another owner", since, 1, other).await;
        let wait = ["HGET", "reseq:{p00}:epoch", "takeover_wait_ms"];
        let wait: u64 = scenario.redis.ask(&wait).await.unwrap();
        scenario.pods[at].thaw();
        if wait == 0 { Err(Anomaly::TwoOwners) } else { scenario.settles().await }
    }
    .await;
    (verdict, scenario.sent)
}

/// An owner renews its lease, and the clock of Redis steps forward. No other sender may take the partition.
pub async fn clock_steps_forward(bug: Option<String>) -> Ended {
    let roles = [ALL, "sender"];
    let manners = Manners::default();
    let mut scenario = Scenario::start(bug.as_deref(), &roles, manners, SOON, short_leases).await;
    let verdict = async {
        scenario.send(5).await?;
        scenario.settles().await?;
        scenario.redis.clock().step(Duration::from_secs(600), true);
        let since = scenario.control.count();
        let renews = |visit: &Visit| visit.point == "owner.renewing";
        scenario.control.sees("renewals", since, MANY, renews).await;
        let takes = |visit: &Visit| visit.point == "owner.taken";
        match scenario.control.visits(since, takes).is_empty() {
            true => scenario.settles().await,
            false => Err(Anomaly::TwoOwners),
        }
    }
    .await;
    (verdict, scenario.sent)
}

/// A processor dies with claims while the clock of Redis steps back.
pub async fn clock_steps_back(bug: Option<String>) -> Ended {
    let roles = ["ingest,sender", "processor"];
    let manners = Manners { fails_each: 100, ..Manners::default() };
    let mut scenario = Scenario::start(bug.as_deref(), &roles, manners, SOON, short_leases).await;
    let verdict = async {
        // Meanwhile the owner reads the clock of Redis.
        let renews = |visit: &Visit| visit.point == "owner.renewing";
        scenario.control.sees("renewals", 0, MANY, renews).await;
        scenario.control.catch("processor.claimed");
        scenario.send(5).await?;
        let held = scenario.control.caught().await;
        let at = scenario.at(&held);
        scenario.kills(held);
        scenario.redis.clock().step(Duration::from_secs(600), false);
        scenario.pods[at].restart().await;
        scenario.settles().await
    }
    .await;
    (verdict, scenario.sent)
}
