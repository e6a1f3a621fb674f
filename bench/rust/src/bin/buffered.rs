//! An ordered pipeline in one process: `buffered(n)` of the crate `futures`. Nothing is stored, so
//! this is the ideal that a durable system can come near. Each key has a pipeline of its own; with
//! no order `buffer_unordered` takes the place of `buffered`.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use clap::Parser;
use futures::{Stream, StreamExt, stream};
use reseq_bench_peers::{Measure, Options, Order, Tally};
use tokio::{sync::mpsc, task::JoinSet, time};

/// What may wait in front of a pipeline; a sender waits when it is full.
const QUEUE: usize = 1000;

struct Message {
    index: usize,
    sent: Instant,
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    let tally = Arc::new(Mutex::new(Tally::new(&options)));
    let (mut senders, mut pipelines) = (Vec::new(), JoinSet::new());
    for _ in 0..options.keys {
        let (sender, receiver) = mpsc::channel(QUEUE);
        senders.push(sender);
        pipelines.spawn(pipeline(options.clone(), receiver, Arc::clone(&tally)));
    }
    let measure = Measure::start(&options);
    produce(&options, senders).await;
    while let Some(ended) = pipelines.join_next().await {
        ended.expect("a pipeline does not panic");
    }
    let tally = Arc::into_inner(tally).expect("all pipelines have ended");
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    measure.print("buffered(n)", &options, tally);
}

/// Sends all messages, each when it is due. The senders end with it, and so do the pipelines.
async fn produce(options: &Options, senders: Vec<mpsc::Sender<Message>>) {
    let start = Instant::now();
    for index in 0..options.messages {
        let mut sent = Instant::now();
        if options.rate > 0 {
            sent = start + options.due(index);
            time::sleep_until(sent.into()).await;
        }
        let message = Message { index, sent };
        senders[index % options.keys]
            .send(message)
            .await
            .expect("the pipelines outlive the sender");
    }
}

async fn pipeline(options: Options, receiver: mpsc::Receiver<Message>, tally: Arc<Mutex<Tally>>) {
    let arrivals = stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|message| (message, receiver))
    });
    let work = arrivals.map(|message| {
        let time = options.work_of(message.index);
        async move {
            if !time.is_zero() {
                time::sleep(time).await;
            }
            message
        }
    });
    match options.order {
        Order::Strict => deliver(work.buffered(options.concurrency), &tally).await,
        Order::None => deliver(work.buffer_unordered(options.concurrency), &tally).await,
    }
}

async fn deliver(finished: impl Stream<Item = Message>, tally: &Mutex<Tally>) {
    let mut finished = std::pin::pin!(finished);
    while let Some(message) = finished.next().await {
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.done(message.index, message.sent.elapsed());
    }
}
