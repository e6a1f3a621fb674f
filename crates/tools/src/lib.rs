//! Real processes of Reseq on an embedded Redis ([`harness`]), and simple [`servers`], for the [`demo`] and the bench.

pub mod demo;
pub mod harness;
pub mod quantiles;
pub mod servers;
