//! How Reseq reaches other services: the [`clients`] and where they may connect to ([`outgoing`]), a message as an
//! HTTP request ([`http`]), and a stream of frames ([`receiver_stream`]).

pub mod clients;
pub mod http;
pub mod outgoing;
pub mod receiver_stream;
