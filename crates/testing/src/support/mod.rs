//! Shared by the tests. Each test program uses a part of it.

pub mod anomaly;
pub mod certificates;
pub mod checker;
pub mod cluster;
pub mod control;
pub mod examiner;
pub mod gate;
pub mod generated;
pub mod http;
pub mod journal;
pub mod ledger;
pub mod long;
pub mod lua;
pub mod pods;
pub mod ports;
pub mod power;
pub mod preload;
pub mod producer;
pub mod proxy;
pub mod receiver;
pub mod redis;
pub mod sentinel;
pub mod source;
pub mod tls;
pub mod transformer;
pub mod wait;
