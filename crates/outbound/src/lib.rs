//! Connections to other services: the [`http_client`], the allowed addresses ([`outgoing`]), a
//! message as an HTTP request ([`http`]), and a stream of frames ([`receiver_stream`]).

pub mod http;
pub mod http_client;
pub mod outgoing;
pub mod receiver_stream;
