//! What the tests share. Each test binary uses a part of it.
#![allow(dead_code)]

pub mod redis;
