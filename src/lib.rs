//! Reseq: messages in over HTTP or TCP, transformed in parallel, out in order of arrival.
//!
//! The modules in reading order: the vocabulary ([`domain`]), the configuration ([`config`]), connections
//! and calls to Redis ([`redis_client`]), state and transitions there ([`store`]), wire formats ([`wire`]),
//! expressions ([`jq`]), the path of a message ([`ingest`], [`processor`], [`sender`]), the rest of the HTTP
//! API ([`api`]), the assembly ([`app`]), and the commands ([`cli`]). [`tls`] reads certificates; [`shares`] divides what
//! is limited. [`harness`] starts real processes, for
//! `reseq demo` and for the bench.
//!
//! As a library: implement [`Transform`], register it, start.
//!
//! ```no_run
//! use reseq::{Failure, Output, Reseq, Stamped, Transform, config::Config, domain::Body};
//!
//! struct Shout;
//!
//! #[async_trait::async_trait]
//! impl Transform for Shout {
//!     async fn transform(&self, message: &Stamped) -> Result<Output, Failure> {
//!         let text = str::from_utf8(&message.message.body.bytes)
//!             .map_err(|_| Failure::permanent("the body is not text"))?;
//!         let bytes = text.to_uppercase().into();
//!         Ok(Output::Deliver(Body { content_type: "text/plain".into(), bytes }))
//!     }
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::load(Some("reseq.toml".as_ref()), std::env::vars())?;
//! Reseq::new(config).transform("shout", Shout).start().await?.ended().await?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod access;
pub mod api;
pub mod app;
pub mod cli;
pub mod config;
pub mod console;
pub mod domain;
pub mod faults;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod harness;
pub mod ingest;
pub mod jq;
pub mod processor;
pub mod redis_client;
pub mod sender;
pub mod shares;
pub mod store;
pub mod telemetry;
pub mod tls;
pub mod wire;

pub use app::{AppError, Reseq, Role, Running};
pub use domain::Stamped;
pub use processor::{Failure, Output, Transform};
