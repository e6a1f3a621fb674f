//! What the test programs share: real servers, pods and receivers ([`support`]), calls of single scripts
//! ([`scripts`]), the reference model ([`model`]), the small worlds ([`small`]), and calls
//! that run many blocks ([`blocks`]).

pub mod blocks;
pub mod model;
pub mod scripts;
pub mod small;
pub mod support;
