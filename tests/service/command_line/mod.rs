//! Tests the commands for operators with a running service.

mod attention;
mod contexts;
mod doctor;
mod lanes;
mod nouns;
mod status;
mod tail;
mod terminal;
mod top;
mod verify;

use serde_json::Value;

use crate::{
    operations::commands::{Ran, run_at},
    policies::scenario::Scenario,
};

impl Scenario {
    /// Runs a command against the pod.
    async fn command(&self, args: &[&str]) -> Ran {
        run_at(&self.pod.url(""), args, &[], "").await
    }

    /// Runs a command that ends with this code. Returns its JSON output.
    async fn json(&self, args: &[&str], code: i32) -> Value {
        let args = [args, &["-o", "json"]].concat();
        serde_json::from_str(&self.command(&args).await.ended(code)).unwrap()
    }
}
