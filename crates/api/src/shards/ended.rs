//! Waits for the end of an operation on several shards.

use std::time::Duration;

use crate::{
    Api,
    bulk::{self, Operation, State},
};
use domain::DestinationName;
use store::StoreError;

/// How often a running operation is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The operation of a shard; `None` if there is none that can be read.
async fn look(
    api: &Api,
    shard: &DestinationName,
    id: &str,
) -> Result<Option<Operation>, StoreError> {
    let Some(entry) = api.catalog.find(shard).await? else { return Ok(None) };
    let (now_ms, text) =
        (api.store.server_time_ms().await?, api.store.operation(&entry, id).await?);
    Ok(text.and_then(|text| Operation::read(&text, now_ms).ok()))
}

/// Waits for the end of an operation on several shards. Returns its state and what it affected; `None` if this process
/// stops before.
pub(super) async fn ended(
    api: &Api,
    shards: impl Iterator<Item = DestinationName>,
    id: &str,
) -> Option<(String, u64)> {
    let (mut worst, mut affected) = (State::Succeeded, 0);
    for shard in shards {
        // A shard whose server does not answer is asked again.
        let ended = loop {
            match look(api, &shard, id).await {
                Ok(Some(operation)) if operation.state == State::Running => {}
                Ok(operation) => break operation,
                Err(error) => {
                    tracing::debug!(destination = %shard, %error, "an operation cannot be read")
                }
            }
            api.stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await?;
        };
        let Some(ended) = ended else { continue };
        affected += ended.affected;
        if ended.state == State::Failed || worst == State::Succeeded {
            worst = ended.state;
        }
    }
    Some((bulk::name_of(worst), affected))
}
