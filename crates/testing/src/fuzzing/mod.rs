//! Fuzz targets for the parsers of input: one function for each target of `fuzz/`. Each also checks
//! the result of its parser. `tests/quick/fuzzing.rs` runs the inputs in `fuzz/corpus`, one per line in base64.

mod addresses;
mod definitions;
mod frames;
mod signatures;
mod tokens;

pub use addresses::addresses;
pub use api::fuzzing::cursors;
pub use definitions::{configuration, definitions};
pub use frames::frames;
pub use ingest::fuzzing::{headers, messages};
pub use signatures::{signatures, verification};
pub use tokens::tokens;

/// Checks one input.
pub type Target = fn(&[u8]);

/// Every target, by its name.
pub const TARGETS: [(&str, Target); 10] = [
    ("addresses", addresses),
    ("configuration", configuration),
    ("cursors", cursors),
    ("definitions", definitions),
    ("frames", frames),
    ("headers", headers),
    ("messages", messages),
    ("signatures", signatures),
    ("tokens", tokens),
    ("verification", verification),
];
