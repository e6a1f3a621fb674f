//! Tests without Redis: the structure of the project, headers of scripts, the example
//! configuration, the corpus of fuzzing, and the checker that other tests use. `make quick` runs them.

use reseq_testing::support;

mod checker;
mod example_config;
mod fuzzing;
mod metrics;
mod openapi;
mod script_headers;
mod structure;
mod supply_chain;
