//! Which partitions this pod owns: a fair share, taken and given back without a coordinator. The
//! leases in Redis alone decide what is safe; the shares only decide who does what.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use tokio::{sync::Notify, time::Instant};

use super::tenure::Tenure;
use crate::{
    faults::pause::{Point, point},
    store::{OwnerToken, Store, StoreError},
};

/// The name of the role in the list of pods.
const ROLE: &str = "sender";
/// While partitions change hands, the pods are counted at most this often.
const RECOUNT: Duration = Duration::from_millis(50);
/// A pod that has not said for so long that it lives may be dead.
const SILENT: Duration = Duration::from_millis(2_500);
/// While a dead pod's partitions become free, they are looked for this often.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Calls for ownership in flight at once.
const CALLS_MAX: usize = 64;

pub(super) struct Ownership {
    store: Store,
    lease: Duration,
    tenures: HashMap<u16, Arc<Tenure>>,
    /// Sender pods that live, this one among them, and when they were counted.
    pods: usize,
    counted: Instant,
    /// A pod fell silent: until then its partitions become free.
    inherits_until: Option<Instant>,
    /// When to rebalance before the next time that it is done anyway.
    look_at: Option<Instant>,
    /// Everything is being given back; nothing is taken any more.
    leaving: bool,
    /// When people were last told of a quarantine: once for all partitions.
    told: Option<Instant>,
    /// Told when a tenure is over.
    over: Arc<Notify>,
}

impl Ownership {
    pub(super) fn new(store: Store, lease: Duration) -> Self {
        Ownership {
            store,
            lease,
            tenures: HashMap::new(),
            pods: 1,
            counted: Instant::now(),
            inherits_until: None,
            look_at: None,
            leaving: false,
            told: None,
            over: Arc::new(Notify::new()),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.tenures.len()
    }

    /// The partitions whose lanes may be delivered by this pod.
    pub(super) fn partitions(&self) -> Vec<u16> {
        let live = self.tenures.values().filter(|tenure| !tenure.is_over());
        live.map(|tenure| tenure.partition).collect()
    }

    pub(super) fn of(&self, partition: u16) -> Option<Arc<Tenure>> {
        self.tenures.get(&partition).filter(|tenure| !tenure.is_over()).cloned()
    }

    /// Resolves when a tenure is over: it should be taken anew, or can be given back.
    pub(super) async fn tenure_over(&self) {
        self.over.notified().await;
    }

    /// Resolves when it is time to rebalance at once: a silent pod is counted no more, or its partitions
    /// become free.
    pub(super) async fn inheritance_due(&self) {
        match self.look_at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    fn share(&self) -> usize {
        usize::from(self.store.keys().partitions()).div_ceil(self.pods.max(1))
    }

    /// Renews all leases. What was drained is given back; what was lost is dropped, and taken anew
    /// if nobody else has it.
    pub(super) async fn renew(&mut self) {
        if !self.tenures.is_empty() {
            point(Point::OwnerRenewing).await;
        }
        let drained = self.take_drained();
        let tenures: Vec<Arc<Tenure>> = self.tenures.values().cloned().collect();
        let (store, lease) = (&self.store, self.lease);
        let renewals = stream::iter(tenures).map(|tenure| async move {
            let asked = Instant::now();
            let owned = store.own(tenure.partition, &tenure.owner.token, lease);
            let owned = in_time(lease, owned).await;
            // At once: a server that does not answer must not cost what another has renewed.
            if owned.as_ref().is_ok_and(|owned| owned.epoch == tenure.owner.epoch) {
                tenure.extend(valid_until(asked, lease));
            }
            (tenure, asked, owned)
        });
        let renewals = renewals.buffer_unordered(CALLS_MAX).collect::<Vec<_>>();
        // Side by side: leases run out while others are given back.
        let (renewals, _) = tokio::join!(renewals, give_back(store, drained));
        let mut anew = Vec::new();
        for (tenure, asked, owned) in renewals {
            match owned {
                Ok(owned) if owned.epoch == tenure.owner.epoch && !tenure.lost.is_cancelled() => {
                    tenure.extend(valid_until(asked, lease));
                }
                // Redis may have forgotten something: nothing that was released before counts.
                Ok(_) => {
                    tenure.lost.cancel();
                    anew.extend(self.tenures.remove(&tenure.partition));
                }
                Err(StoreError::Owned(_)) => {
                    tracing::warn!(partition = tenure.partition, "another sender took a partition");
                    tenure.lost.cancel();
                    self.tenures.remove(&tenure.partition);
                }
                Err(error) => {
                    tracing::debug!(partition = tenure.partition, %error, "cannot renew");
                    if tenure.valid_until() <= Instant::now() {
                        tenure.lost.cancel();
                        self.tenures.remove(&tenure.partition);
                    }
                }
            }
        }
        if !anew.is_empty() {
            let free = give_back(&self.store, anew).await;
            if !self.leaving {
                self.take(&free).await;
            }
        }
    }

    /// What is drained, or should be, and can be given back. Done with the renewals: one that is
    /// still under way could take back what is given back.
    fn take_drained(&mut self) -> Vec<Arc<Tenure>> {
        let is_over = |tenure: &&Arc<Tenure>| tenure.is_drained() || tenure.is_overdue();
        let drained: Vec<_> = self.tenures.values().filter(is_over).cloned().collect();
        for tenure in &drained {
            if !tenure.is_drained() {
                let partition = tenure.partition;
                tracing::warn!(partition, "deliveries are broken off to give a partition back");
            }
            tenure.lost.cancel();
            self.tenures.remove(&tenure.partition);
        }
        drained
    }

    /// Counts the pods, takes what is free up to the share, gives back what is beyond it.
    pub(super) async fn rebalance(&mut self) {
        self.look_at = None;
        match in_time(self.lease, self.store.heartbeat(ROLE, self.lease)).await {
            Ok((pods, silent_for)) => self.count_pods(pods.max(1), silent_for),
            // On a cluster, only the node that counts may be gone: as many as there were, then.
            Err(error) => tracing::debug!(%error, "cannot count the senders"),
        }
        let share = self.share();
        let surplus = self.partitions().into_iter().skip(share);
        // No longer than the partition of a dead pod would stand still.
        let by = Instant::now() + self.lease;
        for partition in surplus.collect::<Vec<_>>() {
            if let Some(tenure) = self.of(partition) {
                tenure.hand_over(by);
            }
        }
        // Tenures that were lost still count: `renew`, which is told of them, gives them back.
        let wanted = share.saturating_sub(self.tenures.len());
        if wanted > 0 {
            let all = 0..self.store.keys().partitions();
            let missing: Vec<u16> = all.filter(|p| !self.tenures.contains_key(p)).collect();
            self.take_free(&missing, wanted).await;
        }
        let is_short = self.tenures.len() < share;
        if is_short && self.inherits_until.is_some_and(|until| Instant::now() < until) {
            self.look_at = Some(Instant::now() + LOOK_AGAIN);
        }
    }

    /// Notes how many senders live; and if one of them is silent, when to count again.
    fn count_pods(&mut self, pods: usize, silent_for: Duration) {
        let now = Instant::now();
        if pods < self.pods {
            // Leases that it renewed just before it died.
            self.inherits_until = Some(now + self.lease);
        }
        (self.pods, self.counted) = (pods, now);
        // The others say every second that they live.
        if silent_for < self.lease.saturating_sub(SILENT) {
            self.look_at = Some(now + silent_for + Duration::from_millis(1));
        }
    }

    /// A partition was given back by another pod: takes it if the share allows. Who gives all back
    /// has left the list of pods before, so they are counted again: at once, or, if they were counted
    /// just now, a little later, as that may have been just before it left.
    pub(super) async fn take_freed(&mut self, partition: u16) {
        if self.tenures.len() >= self.share() {
            let again = self.counted + RECOUNT;
            if again <= Instant::now() {
                self.rebalance().await;
            } else {
                self.look_at = Some(self.look_at.map_or(again, |at| at.min(again)));
            }
        }
        if !self.tenures.contains_key(&partition) && self.tenures.len() < self.share() {
            self.take(&[partition]).await;
        }
    }

    /// Leaves the list of pods, so that the others' shares grow.
    pub(super) async fn leave(&self) {
        if let Err(error) = self.store.leave(ROLE).await {
            tracing::debug!(%error, "cannot leave the list of senders");
        }
    }

    /// Takes at most `wanted` of these partitions. Looks first which are free: most are another's.
    /// Pods begin at different places, so that they seldom ask for the same.
    async fn take_free(&mut self, partitions: &[u16], wanted: usize) {
        let looked = async { Ok(self.store.free_of(partitions).await) };
        let mut free = in_time(self.lease, looked).await.unwrap_or_default();
        let start = rand::random_range(0..free.len().max(1));
        free.rotate_left(start);
        let before = self.tenures.len();
        let mut rest = free.as_slice();
        while !rest.is_empty() {
            let left = wanted.saturating_sub(self.tenures.len() - before);
            if left == 0 {
                return;
            }
            let (some, others) = rest.split_at(left.min(CALLS_MAX).min(rest.len()));
            self.take(some).await;
            rest = others;
        }
    }

    async fn take(&mut self, partitions: &[u16]) {
        let (store, lease) = (&self.store, self.lease);
        let calls = stream::iter(partitions.iter().copied()).map(|partition| async move {
            let (token, asked) = (OwnerToken::random(), Instant::now());
            let owned = in_time(lease, store.own(partition, &token, lease)).await;
            (partition, token, asked, owned)
        });
        let answers: Vec<_> = calls.buffer_unordered(CALLS_MAX).collect().await;
        if answers.iter().any(|(_, _, _, owned)| owned.is_ok()) {
            point(Point::OwnerTaken).await;
        }
        let (mut quarantine, mut unsure) = (Duration::ZERO, Vec::new());
        for (partition, token, asked, owned) in answers {
            match owned {
                Ok(owned) => {
                    quarantine = quarantine.max(owned.quarantine);
                    let until = valid_until(asked, lease);
                    let tenure =
                        Tenure::new(partition, token, owned.epoch, owned.quarantine, until);
                    let tenure = Arc::new(tenure);
                    tokio::spawn(watch(tenure.clone(), self.over.clone()));
                    self.tenures.insert(partition, tenure);
                }
                Err(StoreError::Owned(_)) => {}
                Err(error) => {
                    tracing::debug!(partition, %error, "cannot take a partition");
                    if matches!(error, StoreError::Unconfirmed(_)) {
                        unsure.push((partition, token));
                    }
                }
            }
        }
        if !unsure.is_empty() {
            self.leave_alone(unsure).await;
        }
        if !quarantine.is_zero() && self.told.is_none_or(|told| told.elapsed() > self.lease) {
            self.told = Some(Instant::now());
            let wait_ms = quarantine.as_millis() as u64;
            tracing::info!(
                wait_ms,
                "Redis was restarted: deliveries wait until a sender that it may have forgotten must have stopped"
            );
        }
    }

    /// Gives back what may have been taken, and does not count as owned: else it would stand still
    /// until that lease runs out.
    async fn leave_alone(&self, unsure: Vec<(u16, OwnerToken)>) {
        let (store, count) = (&self.store, unsure.len());
        let calls = stream::iter(unsure)
            .map(|(partition, token)| async move { store.disown(partition, &token).await });
        let answers: Vec<_> = calls.buffer_unordered(CALLS_MAX).collect().await;
        let given_back = answers.iter().filter(|answer| answer.is_ok()).count();
        tracing::warn!(
            count,
            given_back,
            "taking partitions was not confirmed: nothing of theirs is delivered from here"
        );
    }

    /// Has everything end that is in flight, and nothing begin.
    pub(super) fn drain_all(&mut self) {
        self.leaving = true;
        self.tenures.values().for_each(|tenure| tenure.draining.cancel());
    }

    /// Gives all partitions back.
    pub(super) async fn give_all_back(&mut self) {
        let tenures: Vec<_> = self.tenures.drain().map(|(_, tenure)| tenure).collect();
        tenures.iter().for_each(|tenure| tenure.lost.cancel());
        give_back(&self.store, tenures).await;
    }
}

/// Gives partitions back; returns those of which Redis said that they are free now.
async fn give_back(store: &Store, tenures: Vec<Arc<Tenure>>) -> Vec<u16> {
    let calls = stream::iter(tenures).map(|tenure| async move {
        (tenure.partition, store.disown(tenure.partition, &tenure.owner.token).await)
    });
    let answers: Vec<_> = calls.buffer_unordered(CALLS_MAX).collect().await;
    let mut free = Vec::new();
    for (partition, answer) in answers {
        match answer {
            Ok(_) => free.push(partition),
            Err(error) => {
                tracing::warn!(partition, %error, "a partition was not given back; its lease runs out");
            }
        }
    }
    free
}

/// Gives a call up while there is time to renew what other servers hold. What it asked for may be
/// done all the same: nobody acts on it, and it runs out.
async fn in_time<T>(
    lease: Duration,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let answered = tokio::time::timeout(lease / 2, call).await;
    answered.unwrap_or_else(|_| Err(StoreError::Unconfirmed("no answer in time".into())))
}

/// A little before the lease can have run out, by our own clock.
fn valid_until(asked: Instant, lease: Duration) -> Instant {
    asked + lease - lease / 10
}

/// Ends a tenure when its lease runs out, and tells when it is over: lost in any way, or drained.
async fn watch(tenure: Arc<Tenure>, over: Arc<Notify>) {
    tokio::select! {
        () = tenure.ended() => {}
        () = tenure.drained() => {}
    }
    over.notify_one();
}
