//! Reseq: messages in over HTTP or TCP, transformed in parallel, out in order of arrival.
//!
//! This crate composes the parts, which are separate crates in `crates/`; programs use only this
//! crate. In reading order: the vocabulary ([`domain`]), the configuration ([`config`]),
//! connections and calls to Redis (`redis_client`), state and transitions there (`store`), the
//! path of a message (`ingest`, `processor`, `sender`), and the rest of the HTTP API (`api`).
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

pub mod app;
pub mod serve;

pub use app::{AppError, Reseq, Role, Running};
pub use config;
pub use domain::{self, Stamped};
pub use processor::{Failure, Output, Transform};
