//! How Reseq reaches other services: the [`http_client`] and where they may connect to ([`outgoing`]), a message as an
//! HTTP request ([`http`]), and a stream of frames ([`receiver_stream`]).

pub mod http;
pub mod http_client;
pub mod outgoing;
pub mod receiver_stream;
