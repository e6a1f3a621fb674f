//! The reasons why Reseq refuses to start on the configured Redis.

use super::known_schema;

/// Why Reseq refuses to start on this Redis. Each sentence says what to do.
#[derive(Debug, thiserror::Error)]
pub enum UnfitServer {
    /// The server does not meet the requirements.
    #[error(transparent)]
    Server(#[from] redis_client::UnfitServer),
    /// The deployment has a different number of partitions.
    #[error(
        "This deployment was first started with {stored} partitions, but redis.partitions is \
         {configured}. The number can never change: set redis.partitions = {stored}."
    )]
    WrongPartitions {
        /// The number of partitions that Redis stores.
        stored: u16,
        /// The number of partitions in the configuration.
        configured: u16,
    },
    /// A Reseq version whose schema is too old wrote the data.
    #[error("{}.", known_schema::older_sentence(*.stored))]
    OlderSchema {
        /// The schema that Redis stores.
        stored: u32,
    },
    /// A newer version of Reseq wrote the data.
    #[error("{}.", known_schema::newer_sentence(*.stored))]
    NewerSchema {
        /// The schema that Redis stores.
        stored: u32,
    },
}
