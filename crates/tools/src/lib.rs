//! Real processes of Reseq on an embedded Redis ([`harness`]), and [`servers`] around them, for the [`demo`] and for
//! the bench.

pub mod demo;
pub mod harness;
pub mod quantiles;
pub mod servers;
