//! Real processes of Reseq on an embedded Redis ([`harness`]), for the [`demo`] and for the bench.

pub mod demo;
pub mod harness;
