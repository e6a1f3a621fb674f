//! The signals that end a run early.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for Ctrl-C, SIGTERM and the loss of the terminal.
pub struct Interrupt {
    signals: [Signal; 3],
}

impl Interrupt {
    /// Listens from now on. The signals then no longer end the process.
    pub fn listen() -> std::io::Result<Interrupt> {
        let signals = [
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ];
        Ok(Interrupt { signals })
    }

    /// Waits for the first of these signals.
    pub async fn wait(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
