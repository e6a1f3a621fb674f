//! What the wake-ups of ready messages carry.

use crate::hand_overs;

#[tokio::test]
async fn the_wake_up_of_a_head_carries_it_unless_something_speaks_against_it() {
    assert_eq!(hand_overs::wake_ups_carry_heads().await, Ok(()));
}
