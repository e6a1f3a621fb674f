//! Tests with pods that are held, ended or cut off at named points, planted bugs, power cuts, and upgrades.

use reseq_testing::support;

mod pause_points;
mod planted_bugs;
mod power_cut;
#[cfg(feature = "next-schema")]
mod upgrades;

/// Held by a test that keeps several scenarios busy at once: two of them would overload the machine.
#[cfg(feature = "pause-points")]
static ALL_PROCESSORS: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
