//! What the test programs share: real servers, pods and receivers ([`support`]), calls of single scripts
//! ([`scripts`]), the reference model ([`model`]) and the small worlds ([`small`]).

pub mod model;
pub mod scripts;
pub mod small;
pub mod support;
