//! Checks the sentinels: whether they answer, agree, and could choose another primary.

use std::collections::BTreeSet;

use super::{
    Findings,
    Severity::{Error, Warning},
    counted,
};
use crate::Api;
use store::SentinelState;

pub(super) async fn check(api: &Api, findings: &mut Findings) {
    judge(&api.store.examine_sentinels().await, findings);
}

fn judge(all: &[(String, Result<SentinelState, String>)], findings: &mut Findings) {
    const CHECK: &str = "redis_sentinels";
    let known = all.iter().filter_map(|(name, state)| Some((name, state.as_ref().ok()?)));
    let known: Vec<(&String, &SentinelState)> = known.collect();
    let most = known.len() * 2 > all.len();
    for (name, state) in all {
        let (severity, summary) = match state {
            Ok(SentinelState { primary: None, .. }) => {
                (Warning, "It does not know the service of redis.url.".to_owned())
            }
            Ok(_) => continue,
            Err(error) if most => (Warning, format!("The sentinel does not answer: {error}.")),
            Err(error) => (
                Error,
                format!(
                    "The sentinel does not answer: {error}. Only {} of {} answer: there is no failover.",
                    known.len(),
                    counted(all.len() as u64, "sentinel")
                ),
            ),
        };
        findings.add(
            (severity, CHECK),
            name,
            summary,
            "Check that it runs, and its sentinel.conf.",
        );
    }
    if let Some((name, sentence)) =
        known.iter().find_map(|(name, state)| Some((name, state.refusal.as_ref()?)))
    {
        let summary = format!("The sentinels could not choose another primary now: {sentence}.");
        let action = "Start the missing sentinels, or correct the quorum (SENTINEL CKQUORUM).";
        findings.add((Error, CHECK), name, summary, action);
    }
    let named: BTreeSet<&String> =
        known.iter().filter_map(|(_, state)| state.primary.as_ref()).collect();
    if named.len() > 1 {
        let named = named.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let summary = format!("The sentinels name different primaries: {named}.");
        let action =
            "Wait for the end of a failover. Otherwise check the network between the sentinels.";
        findings.add((Warning, CHECK), "", summary, action);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_that_could_not_fail_over_are_errors() {
        let names = |primary: &str, refusal: Option<&str>| {
            let (primary, refusal) = (Some(primary.to_owned()), refusal.map(str::to_owned));
            Ok(SentinelState { primary, refusal })
        };
        let found = |all: &[Result<SentinelState, String>]| -> Vec<super::super::Severity> {
            let all: Vec<_> =
                all.iter().map(|one| ("10.0.0.1:26379".to_owned(), one.clone())).collect();
            let mut findings = Findings::default();
            judge(&all, &mut findings);
            findings.found.iter().map(|finding| finding.severity).collect()
        };
        let (well, gone) = (names("a:1", None), Err("no answer".to_owned()));
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[well.clone(), well.clone(), well.clone()]), []);
        assert_eq!(found(&[well.clone(), well.clone(), gone.clone()]), [Warning]);
        assert_eq!(found(&[well.clone(), gone.clone(), gone]), [Error, Error]);
        assert_eq!(found(&[well.clone(), well.clone(), names("b:1", None)]), [Warning]);
        assert_eq!(found(&[well.clone(), names("a:1", Some("NOQUORUM 1 usable")), well]), [Error]);
        assert_eq!(found(&[Ok(SentinelState::default())]), [Warning]);
    }
}
