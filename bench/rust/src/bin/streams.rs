//! Redis Streams with nothing around them: XADD, XREADGROUP, XACK and XDEL in batches. No order
//! across consumers, no retry. It is the floor of what Redis takes for a message that is stored
//! and handed out once; it does no work, so it runs the case without work alone.

use std::{
    hint::black_box,
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use redis::{
    Commands, Connection, RedisResult,
    streams::{StreamReadOptions, StreamReadReply},
};
use reseq_bench_peers::{BODY_BYTES, Measure, Options, Tally};

const BATCH: usize = 100;
const STREAM: &str = "bench";
const GROUP: &str = "workers";
const BLOCK_MS: usize = 1000;

fn main() -> RedisResult<()> {
    let options = Options::parse();
    let mut connection = connect(&options)?;
    let () = connection.xgroup_create_mkstream(STREAM, GROUP, "0")?;
    let mut producing = connect(&options)?;
    let epoch = Instant::now();
    let measure = Measure::start(&options);
    let messages = options.messages;
    let producer = thread::spawn(move || produce(&mut producing, messages, epoch));
    let tally = consume(&mut connection, &options, epoch)?;
    producer.join().expect("the producer does not panic")?;
    measure.print("Redis Streams", &options, tally);
    Ok(())
}

fn connect(options: &Options) -> RedisResult<Connection> {
    redis::Client::open(format!("unix://{}", options.address))?.get_connection()
}

/// A body is its number, when it was sent, and padding.
fn produce(connection: &mut Connection, messages: usize, epoch: Instant) -> RedisResult<()> {
    let mut body = [b'x'; BODY_BYTES];
    for first in (0..messages).step_by(BATCH) {
        let mut batch = redis::pipe();
        for index in first..messages.min(first + BATCH) {
            body[..8].copy_from_slice(&(index as u64).to_le_bytes());
            body[8..16].copy_from_slice(&(epoch.elapsed().as_nanos() as u64).to_le_bytes());
            batch.xadd(STREAM, "*", &[("body", &body[..])]).ignore();
        }
        let () = batch.query(connection)?;
    }
    Ok(())
}

fn consume(connection: &mut Connection, options: &Options, epoch: Instant) -> RedisResult<Tally> {
    let how = StreamReadOptions::default().group(GROUP, "one").count(BATCH).block(BLOCK_MS);
    let mut tally = Tally::new(options);
    while tally.count() < options.messages {
        let read: Option<StreamReadReply> = connection.xread_options(&[STREAM], &[">"], &how)?;
        let entries: Vec<_> =
            read.into_iter().flat_map(|reply| reply.keys).flat_map(|stream| stream.ids).collect();
        if entries.is_empty() {
            continue;
        }
        let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        let () = redis::pipe()
            .xack(STREAM, GROUP, &ids)
            .ignore()
            .xdel(STREAM, &ids)
            .ignore()
            .query(connection)?;
        for entry in &entries {
            let body: Vec<u8> = entry.get("body").unwrap_or_default();
            let (index, sent) = black_box((number(&body, 0), number(&body, 8)));
            tally.done(index as usize, epoch.elapsed().saturating_sub(Duration::from_nanos(sent)));
        }
    }
    Ok(tally)
}

/// The number that stands at a place of a body.
fn number(body: &[u8], at: usize) -> u64 {
    let bytes = body.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}
