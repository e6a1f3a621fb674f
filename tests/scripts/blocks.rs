//! Calls of several callers that run on Redis together.

use crate::blocks;

#[tokio::test]
async fn blocks_in_one_call_are_checked_and_answered_separately() {
    assert_eq!(blocks::many_partitions().await, Ok(()));
}
