//! Tests the content of wake-ups of ready messages.

use crate::hand_overs;

#[tokio::test]
async fn wake_up_carries_its_head_unless_something_forbids_it() {
    assert_eq!(hand_overs::wake_ups_carry_heads().await, Ok(()));
}
