//! Queries, which do not change data: for display, and to find work.

pub mod attention;
pub mod audit;
pub mod backlogs;
mod backoffs;
pub mod blocked_times;
pub mod cause;
mod consumers;
pub mod dead_letters;
pub mod lanes;
pub mod log;
pub mod lookups;
pub mod memory;
pub mod messages;
mod occupied;
pub mod operations;
pub mod partitions;
pub mod pods;
pub mod records;
pub mod results;
pub mod servers;
pub mod sources;
pub mod stats;
pub mod versions;
pub mod why;
pub mod work;
