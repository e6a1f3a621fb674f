//! `POST /v1/destinations/{d}/dead-letters/redrive`: puts dead letters at the end of their lanes again.

use std::{num::NonZeroU32, sync::Arc};

use axum::{http::HeaderMap, response::Response};

use super::{
    bulk::{self, BulkAnswers, Kind, Prefer, Progress},
    reingest::{AT_ONCE, Arrivals, CALL_BYTES_MAX},
    request::{InDestination, Order, Target},
    selection::{Selection, Walk},
};
use domain::{
    Arrival, Attempts, Message, Ordering, Origin, ProcessingOptions, Redrive, Sequence, Stage,
    Stamped,
};
use http_server::{openapi_responses, problem::Problem};
use store::{CatalogEntry, DeadLetter, chunks_by_size, server_clock_ms};

/// `POST /v1/destinations/{d}/dead-letters/redrive`
#[utoipa::path(post, path = "/v1/destinations/{destination}/dead-letters/redrive", tag = "dead letters",
    operation_id = "redrive",
    params(InDestination, Prefer),
    request_body = Selection,
    responses(BulkAnswers, openapi_responses::Changes))]
pub(super) async fn redrive(
    headers: HeaderMap,
    Order(target, selection): Order<Selection>,
) -> Result<Response, Problem> {
    let (dry_run, rate) = (selection.dry_run, selection.rate_per_second);
    let walk = Walk::begin(&target, selection).await?;
    let redriven = target.clone();
    let work = |progress| redrive_all(redriven, walk, dry_run, rate, progress);
    bulk::run(&target, Kind::Redrive, dry_run, &headers, work).await
}

/// Redrives the selected dead letters.
async fn redrive_all(
    mut target: Target,
    mut walk: Walk,
    dry_run: bool,
    rate: Option<NonZeroU32>,
    progress: Arc<Progress>,
) -> Result<(), Problem> {
    progress.set_rate(rate).await;
    let at_once = progress.at_once(AT_ONCE).await;
    let store = target.api.store.clone();
    let mut arrivals = Arrivals::new(&target, true, progress.clone());
    progress.update(|operation| operation.details.gone = Some(0));
    while let Some(step) = walk.next(&target).await? {
        progress.check()?;
        let found = step.letters.len() as u64;
        progress.update(|operation| {
            operation.matched += found;
            let gone = operation.details.gone.unwrap_or_default();
            operation.details.gone = Some(gone + step.missing);
        });
        if dry_run {
            continue;
        }
        let entry = target.entry().clone();
        let mut letters = step.letters;
        // Reads the bodies of only as many messages as one call enqueues.
        while !letters.is_empty() {
            let size = |one: &DeadLetter| one.message.out_of_line.bytes() as usize;
            let count = chunks_by_size(&letters, at_once, CALL_BYTES_MAX, size)
                .first()
                .map_or(0, |c| c.len());
            let rest = letters.split_off(count);
            store.fill_letters(&entry, &mut letters).await?;
            // Skips unreadable dead letters: they cannot be redriven, only discarded.
            let (damaged, whole): (Vec<_>, Vec<_>) =
                letters.into_iter().partition(|letter| letter.message.damaged.is_some());
            progress.update(|operation| operation.failed += damaged.len() as u64);
            let anew: Vec<_> = whole.into_iter().map(|letter| anew(letter, &entry)).collect();
            arrivals.stamp(&mut target, &anew).await?;
            letters = rest;
        }
    }
    Ok(())
}

/// A dead letter as an arrival. If the message was already processed, keeps the result.
fn anew(letter: DeadLetter, entry: &CatalogEntry) -> (Sequence, Arrival) {
    let DeadLetter { stage, message: old, .. } = letter;
    let (position, priority) = (old.position, old.priority);
    let origin = Origin { destination: old.destination.clone(), position };
    let message = Message { received_ms: server_clock_ms(), ..old.message.clone() };
    let processed = (stage == Stage::Delivery).then(|| {
        Box::new(Stamped {
            message: message.clone(),
            attempts: Attempts::default(),
            idempotency_key: None,
            origin: Some(origin.clone()),
            ..old
        })
    });
    let by_priority = entry.destination.ordering == Ordering::None;
    let arrival = Arrival {
        priority: by_priority.then_some(priority),
        origin: Some(origin),
        redrive: Some(Redrive { letter: position, processed }),
        message,
        // A redrive has the attempts of the destination, and no delay.
        options: ProcessingOptions::default(),
        due: None,
        idempotency_key: None,
        source: None,
        traced: None,
    };
    (position.sequence, arrival)
}
