//! `POST /v1/destinations/{d}/purge`: cancels all pending messages.
//!
//! Cancels finished messages first, then the blocking ones. Otherwise the messages behind a halted head would be
//! delivered during the purge.

use std::{collections::BTreeMap, sync::Arc};

use axum::{http::HeaderMap, response::Response};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    bulk::{self, BulkAnswers, Kind, Prefer, Progress},
    request::{InDestination, Order, Target},
    withdraw::name,
};
use domain::{Ordering, Sequence, Tombstone};
use http_server::{openapi_responses, problem::Problem};
use store::{Listed, Page, Stats, WITHDRAW_MAX, Which, Withdrawal, Withdrawn};

/// The most messages of one call to Redis.
const AT_ONCE: usize = 500;

/// Which messages to purge.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PurgeRequest)]
pub(super) struct Purge {
    /// True: only counts the messages.
    #[serde(default)]
    dry_run: bool,
    /// Only messages with this ordering key; `""`: messages without a key.
    key: Option<String>,
}

/// `POST /v1/destinations/{d}/purge`
#[utoipa::path(post, path = "/v1/destinations/{destination}/purge", tag = "interventions", operation_id = "purge",
    params(InDestination, Prefer),
    request_body = Option<Purge>,
    responses(BulkAnswers, openapi_responses::Changes))]
pub(super) async fn purge(
    headers: HeaderMap,
    Order(target, Purge { dry_run, key }): Order<Purge>,
) -> Result<Response, Problem> {
    let purged = target.clone();
    bulk::run(&target, Kind::Purge, dry_run, &headers, |progress| async move {
        Purging { target: purged, key, last: 0, progress }.run(dry_run).await
    })
    .await
}

fn by_state(counts: &Stats) -> BTreeMap<String, u64> {
    let states = [
        ("waiting", counts.waiting),
        ("processing", counts.processing),
        ("delayed", counts.delayed),
        ("ready", counts.ready),
        ("delivering", counts.delivering),
        ("halted", counts.halted),
    ];
    states.into_iter().map(|(state, count)| (state.to_owned(), count)).collect()
}

struct Purging {
    target: Target,
    key: Option<String>,
    /// The last sequence to cancel.
    last: Sequence,
    progress: Arc<Progress>,
}

impl Purging {
    async fn run(&mut self, dry_run: bool) -> Result<(), Problem> {
        let counts = self.target.api.store.counts(self.target.entry()).await?;
        // Messages that arrive from now on are not purged: otherwise the purge might never end.
        self.last = counts.last_sequence;
        if dry_run {
            let by_state = match self.key {
                None => by_state(&counts),
                Some(_) => self.count().await?,
            };
            self.progress.update(|operation| {
                operation.matched = by_state.values().sum();
                operation.details.by_state = by_state;
            });
            return Ok(());
        }
        self.progress.update(|operation| operation.details.withdrawing = Some(0));
        self.cancel_all().await
    }

    async fn cancel_all(&mut self) -> Result<(), Problem> {
        self.sweep(|state| state == domain::State::Ready).await?;
        self.sweep(|_| true).await?;
        self.halted().await
    }

    /// Cancels all messages in one of these states.
    async fn sweep(&mut self, wanted: impl Fn(domain::State) -> bool) -> Result<(), Problem> {
        let mut cursor = None;
        loop {
            let page = self.page(cursor).await?;
            let next = self.next(&page);
            let mut items = page.items;
            items.retain(|one| wanted(one.state));
            // Heads last, so that the messages behind them are not delivered meanwhile.
            items.sort_by_key(|one| std::cmp::Reverse(one.message.position.sequence));
            self.cancel(&items).await?;
            cursor = next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// Cancels halted messages. With ordering by key, this is the only way to find a message whose record is missing.
    async fn halted(&mut self) -> Result<(), Problem> {
        let (store, mut cursor) = (self.target.api.store.clone(), None);
        loop {
            let which = Which {
                state: Some(domain::State::Halted),
                key: self.key.clone(),
                cursor,
                limit: AT_ONCE,
                ..Which::default()
            };
            let page = store.pending(self.target.entry(), &which).await?;
            let mut items = page.items;
            items.retain(|one| !one.withdrawing && one.message.position.sequence <= self.last);
            // The cancelled messages have left the list, so the next page begins at the same place.
            let has_moved = self.cancel(&items).await? > 0;
            cursor = if has_moved { None } else { page.next };
            if cursor.is_none() && !has_moved {
                return Ok(());
            }
        }
    }

    /// The cursor of the next page; `None` if only later arrivals follow.
    fn next(&self, page: &Page) -> Option<u64> {
        let entry = self.target.entry();
        let by_sequence = entry.destination.ordering != Ordering::Key || self.key.is_some();
        page.next.filter(|next| !by_sequence || *next <= self.last)
    }

    /// A page of pending messages, without messages that leave anyway: tombstones and withdrawals.
    async fn page(&mut self, cursor: Option<u64>) -> Result<Page, Problem> {
        let which = Which { state: None, key: self.key.clone(), from: 0, cursor, limit: AT_ONCE };
        let store = self.target.api.store.clone();
        let mut page = store.pending(self.target.entry(), &which).await?;
        let last = self.last;
        page.items.retain(|one| {
            one.message.tombstone.is_none()
                && !one.withdrawing
                && one.message.position.sequence <= last
        });
        Ok(page)
    }

    /// Cancels these messages; returns how many left at once.
    async fn cancel(&mut self, items: &[Listed]) -> Result<u64, Problem> {
        let mut cancelled = 0;
        let entry = self.target.entry().clone();
        for some in items.chunks(WITHDRAW_MAX) {
            self.progress.check()?;
            let mut messages = Vec::with_capacity(some.len());
            for Listed { message, .. } in some {
                let (key, sequence) = (message.message.key.as_deref(), message.position.sequence);
                let lane = match message.damaged.is_some() && key.is_none() {
                    true => self.target.api.store.lane_holding(&entry, sequence).await?,
                    false => Some(entry.destination.lane_of(key, sequence)),
                };
                messages.extend(lane.map(|lane| (lane, sequence)));
            }
            let withdrawal = Withdrawal {
                how: Tombstone::Cancelled,
                reason: "purged",
                error: None,
                messages: &messages,
            };
            let answers = self.target.withdraw(&withdrawal).await?;
            let (mut done, mut withdrawing) = (0, 0);
            for answer in answers {
                match answer {
                    Withdrawn::Done => done += 1,
                    Withdrawn::Withdrawing => withdrawing += 1,
                    // Cancelling creates no dead letters.
                    Withdrawn::Settled | Withdrawn::Full => {}
                }
            }
            cancelled += done;
            self.progress.update(|operation| {
                operation.affected += done + withdrawing;
                operation.matched = operation.affected;
                let before = operation.details.withdrawing.unwrap_or_default();
                operation.details.withdrawing = Some(before + withdrawing);
            });
        }
        Ok(cancelled)
    }

    /// Counts the messages by state, when the request selects only a part of them.
    async fn count(&mut self) -> Result<BTreeMap<String, u64>, Problem> {
        let mut by_state = BTreeMap::new();
        let mut cursor = None;
        loop {
            let page = self.page(cursor).await?;
            for one in &page.items {
                *by_state.entry(name(one.state)).or_insert(0) += 1;
            }
            cursor = self.next(&page);
            if cursor.is_none() {
                return Ok(by_state);
            }
        }
    }
}
