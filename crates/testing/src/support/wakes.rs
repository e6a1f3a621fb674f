//! Receives wake-ups like a pod.

use store::{Store, Wake, WakeKind, Wakes};
use tokio::sync::broadcast::Receiver;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// Listens for this kind of wake-up until the second value is dropped.
pub async fn listen(store: &Store, kind: WakeKind) -> (Receiver<Wake>, AbortOnDropHandle<()>) {
    let wakes = Wakes::default();
    let mut heard = wakes.listen(kind);
    let listening = tokio::spawn(wakes.run(store.clone(), CancellationToken::new()));
    // The first event reports that the subscription has begun.
    while !matches!(heard.recv().await, Ok(Wake::Everything)) {}
    (heard, AbortOnDropHandle::new(listening))
}
