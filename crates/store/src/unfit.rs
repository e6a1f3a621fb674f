//! Why Reseq refuses to start on the configured Redis.

use super::known_schema;

/// Why Reseq refuses to start on this Redis. Each sentence says what to do.
#[derive(Debug, thiserror::Error)]
pub enum UnfitServer {
    /// The server itself.
    #[error(transparent)]
    Server(#[from] redis_client::UnfitServer),
    /// The deployment has another number of partitions.
    #[error(
        "This deployment was first started with {stored} partitions, but redis.partitions is \
         {configured}. The number can never change: set redis.partitions = {stored}."
    )]
    WrongPartitions {
        /// What Redis holds.
        stored: u16,
        /// What the configuration says.
        configured: u16,
    },
    /// Written by a Reseq version whose schema is too old.
    #[error("{}.", known_schema::older_sentence(*.stored))]
    OlderSchema {
        /// What Redis holds.
        stored: u32,
    },
    /// Written by a newer version of Reseq.
    #[error("{}.", known_schema::newer_sentence(*.stored))]
    NewerSchema {
        /// What Redis holds.
        stored: u32,
    },
}
