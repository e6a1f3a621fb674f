//! `POST /v1/destinations/{d}/dead-letters/redrive`: enqueues dead letters again, at the end of
//! their lanes.

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
};
use serde_json::{Value, json};

use super::{
    Api,
    reingest::{AT_ONCE, Arrivals, CALL_BYTES_MAX},
    request::{Target, read_optional},
    selection::{Selection, Walk},
};
use crate::{
    domain::{Arrival, Attempts, Message, Ordering, Origin, Redrive, Sequence, Stage, Stamped},
    store::{CatalogEntry, DeadLetter, chunks_by_size, server_clock_ms},
    wire::problem::Problem,
};

/// `POST /v1/destinations/{d}/dead-letters/redrive`
pub(super) async fn redrive(
    State(api): State<Api>,
    Path(destination): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Problem> {
    let mut target = Target::find(&api, &destination).await?;
    let selection: Selection = read_optional(body, api.batch_bytes_max)?;
    let dry_run = selection.dry_run;
    let mut walk = Walk::begin(&target, selection).await?;
    let mut arrivals = Arrivals::new(&target, true);
    let (mut found, mut missing) = (0, 0);
    while let Some(step) = walk.next(&target).await? {
        found += step.letters.len() as u64;
        missing += step.missing;
        if dry_run {
            continue;
        }
        arrivals.tally.gone += step.missing;
        let entry = target.entry().clone();
        let mut letters = step.letters;
        // Read only as many bodies at a time as one call enqueues.
        while !letters.is_empty() {
            let size = |one: &DeadLetter| one.message.apart.bytes() as usize;
            let count = chunks_by_size(&letters, AT_ONCE, CALL_BYTES_MAX, size)
                .first()
                .map_or(0, |c| c.len());
            let rest = letters.split_off(count);
            api.store.fill_letters(&entry, &mut letters).await?;
            // An unreadable dead letter cannot be redriven; it can be discarded.
            let (damaged, whole): (Vec<_>, Vec<_>) =
                letters.into_iter().partition(|letter| letter.message.damaged.is_some());
            arrivals.tally.refused += damaged.len() as u64;
            let anew: Vec<_> = whole.into_iter().map(|letter| anew(letter, &entry)).collect();
            arrivals.stamp(&mut target, &anew).await?;
            letters = rest;
        }
    }
    if dry_run {
        return Ok(Json(json!({"would_redrive": found, "gone": missing})));
    }
    let tally = arrivals.tally;
    Ok(Json(json!({
        "redriven": tally.stamped,
        "gone": tally.gone,
        "refused": tally.refused,
        "deliveries": tally.deliveries,
    })))
}

/// A dead letter as an arrival. Keeps the result of its processing, if it had been processed.
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
        ..Arrival::of(message)
    };
    (position.sequence, arrival)
}
