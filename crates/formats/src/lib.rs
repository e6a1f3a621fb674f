//! The formats that Reseq shares with other programs, without I/O: TCP framing ([`FrameCodec`]), answers to
//! frames ([`tcp_answer`]) and to batches ([`batch_answer`]), messages as JSON ([`envelope`]), the JSON of
//! their parts ([`json`]), [`signatures`], and the codes of errors ([`code`]).

pub mod batch_answer;
pub mod code;
pub mod delivery_headers;
pub mod envelope;
mod frames;
pub mod json;
pub mod signatures;
pub mod tcp_answer;

pub use frames::{FrameCodec, FrameError};
