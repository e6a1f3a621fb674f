//! Calls of several callers that go to Redis together.

use crate::blocks;

#[tokio::test]
async fn blocks_of_several_partitions_in_one_call_are_checked_and_answered_each_on_its_own() {
    assert_eq!(blocks::many_partitions().await, Ok(()));
}
