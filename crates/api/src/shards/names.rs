//! The destinations of a request with a list of them.

use std::collections::HashSet;

use crate::Api;
use domain::DestinationName;
use http_server::problem::Problem;

/// These destinations, each once, with all their shards. `min`: the fewest messages that the request takes at once.
pub(crate) async fn with_shards(
    api: &Api,
    named: &[DestinationName],
    min: usize,
) -> Result<Vec<DestinationName>, Problem> {
    let (mut all, mut known) = (Vec::with_capacity(named.len()), HashSet::new());
    for name in named {
        let entry = api.catalog.find(name).await?;
        let entry = entry.ok_or_else(|| Problem::unknown_destination(name.as_str()))?;
        let shards: Vec<_> = match name.shard() {
            0 => entry.destination.shard_names().collect(),
            _ => vec![name.clone()],
        };
        if shards.len() > 1 && min > 1 {
            let detail = format!(
                "min: more than 1 is not possible with the shards of {name}; leave min out"
            );
            return Err(Problem::invalid_field(detail));
        }
        // A shard that is not defined yet has no messages.
        let exists =
            |shard: &DestinationName| shard == name || api.catalog.get(shard.as_str()).is_some();
        all.extend(shards.into_iter().filter(exists).filter(|shard| known.insert(shard.clone())));
    }
    Ok(all)
}
