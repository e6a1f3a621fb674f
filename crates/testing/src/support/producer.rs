//! Producers: each sends its messages in order, and records the promises.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{io::BufStream, net::TcpStream};

use super::{
    ledger::{Ledger, Promise, base_of},
    long::{long_form, short_form},
    pods::{Addresses, client},
    receiver::{read_frame, write_frame},
    wait::{LOOK_EVERY, PATIENCE, within},
};

/// A message to send.
#[derive(Debug, Clone)]
pub struct Item {
    pub destinations: Vec<String>,
    pub key: Option<String>,
    /// Unique JSON.
    pub body: String,
}

impl Item {
    /// A message for these destinations; `body` identifies it.
    pub fn new(destinations: &[&str], key: Option<String>, producer: &str, number: usize) -> Item {
        let destinations = destinations.iter().map(|name| (*name).to_owned()).collect();
        let body = format!("{{\"from\":\"{producer}\",\"number\":{number}}}");
        Item { destinations, key, body }
    }

    /// The same message with a body of this many bytes.
    pub fn long(self, producer: &str, number: usize, bytes: usize) -> Item {
        Item { body: short_form(producer, number, bytes), ..self }
    }

    fn line(&self) -> String {
        let mut value = json!({"destinations": self.destinations, "idempotency_key": self.body});
        value["body"] = serde_json::from_str(&long_form(&self.body)).unwrap();
        if let Some(key) = &self.key {
            value["key"] = json!(key);
        }
        value.to_string()
    }
}

/// A producer over HTTP. After a temporary refusal or a missing answer, it repeats the message with
/// the same idempotency key to the next pod, before it sends anything else.
pub struct Producer {
    name: String,
    client: reqwest::Client,
    doors: Vec<Addresses>,
    ledger: Arc<Ledger>,
    at: usize,
    /// A message that cannot be sent for this long fails the test.
    pub patience: Duration,
    /// The pause before the producer repeats a message.
    pub pause: Duration,
}

impl Producer {
    pub fn new(name: &str, doors: &[Addresses], ledger: &Arc<Ledger>) -> Producer {
        let (name, doors, ledger) = (name.to_owned(), doors.to_vec(), ledger.clone());
        let (client, patience, pause) = (client(), PATIENCE, LOOK_EVERY);
        Producer { name, client, doors, ledger, at: 0, patience, pause }
    }

    /// Chooses the next pod for the next message.
    pub fn turn(&mut self) {
        self.at = (self.at + 1) % self.doors.len();
    }

    /// Chooses the first pod again.
    pub fn returns(&mut self) {
        self.at = 0;
    }

    /// Sends one message. Returns when it is promised.
    pub async fn send(&mut self, item: Item) {
        let deadline = Instant::now() + self.patience;
        loop {
            let request = self.client.post(self.doors[self.at].url("/v1/messages"));
            let request = request.header("content-type", "application/json").body(item.line());
            let problem = match answer(request).await {
                Ok(text) => match self.settle(&item, &serde_json::from_str(&text).unwrap()) {
                    Ok(()) => return,
                    Err(problem) => problem,
                },
                Err(problem) => problem,
            };
            self.again(deadline, &problem).await;
        }
    }

    /// Sends messages as one batch. Returns when all are promised.
    pub async fn send_batch(&mut self, items: Vec<Item>) {
        let deadline = Instant::now() + self.patience;
        let mut left: VecDeque<Item> = items.into();
        loop {
            let lines: Vec<String> = left.iter().map(Item::line).collect();
            let request = self.client.post(self.doors[self.at].url("/v1/messages"));
            let request = request.header("content-type", "application/x-ndjson");
            let problem = match answer(request.body(lines.join("\n"))).await {
                Ok(text) => match self.settle_all(&mut left, &text) {
                    None => return,
                    Some(problem) => problem,
                },
                Err(problem) => problem,
            };
            self.again(deadline, &problem).await;
        }
    }

    /// Removes the promised messages from `left`. Returns why the others were refused.
    fn settle_all(&self, left: &mut VecDeque<Item>, text: &str) -> Option<String> {
        let answers: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let items: Vec<Item> = left.drain(..).collect();
        // If the whole batch was refused, the answer has only one problem.
        if answers.len() == 1 && answers[0]["status"].is_u64() && items.len() > 1 {
            left.extend(items);
            return Some(text.to_owned());
        }
        assert_eq!(answers.len(), items.len(), "{text}");
        let mut first = None;
        for (item, answer) in items.into_iter().zip(answers) {
            if let Err(problem) = self.settle(&item, &answer) {
                first.get_or_insert(problem);
                left.push_back(item);
            }
        }
        first
    }

    /// Records a promise, or returns why there is none.
    fn settle(&self, item: &Item, answer: &Value) -> Result<(), String> {
        if let Some(status) = answer["status"].as_u64() {
            assert!(status == 503 || status == 429, "{answer}");
            return Err(answer.to_string());
        }
        let deliveries = answer["deliveries"].as_array().expect("an answer has deliveries");
        assert_eq!(deliveries.len(), item.destinations.len(), "{answer}");
        for (destination, delivery) in item.destinations.iter().zip(deliveries) {
            let stored_in = delivery["destination"].as_str().unwrap_or_default();
            assert_eq!(base_of(stored_in), destination, "{answer}");
            let is_duplicate = delivery["duplicate"].as_bool().unwrap();
            if is_duplicate {
                self.ledger.note_duplicate();
            }
            self.ledger.promise(Promise {
                destination: stored_in.to_owned(),
                epoch: Some(delivery["epoch"].as_u64().unwrap()),
                sequence: delivery["sequence"].as_u64().unwrap(),
                // A duplicate is answered with the id of this request, not of the first.
                id: (!is_duplicate).then(|| answer["id"].as_str().unwrap().to_owned()),
                key: item.key.clone(),
                body: item.body.clone(),
                producer: self.name.clone(),
            });
        }
        Ok(())
    }

    async fn again(&mut self, deadline: Instant, problem: &str) {
        assert!(Instant::now() < deadline, "{} could not send: {problem}", self.name);
        self.ledger.note_again();
        self.turn();
        tokio::time::sleep(self.pause).await;
    }
}

/// The answer, or the error.
async fn answer(request: reqwest::RequestBuilder) -> Result<String, String> {
    // This is longer than a pod waits for Redis.
    let request = request.timeout(Duration::from_secs(20));
    let answer = request.send().await.map_err(|error| format!("{error:?}"))?;
    answer.text().await.map_err(|error| format!("{error:?}"))
}

/// A producer over TCP with many frames in flight. Frames without an answer when a connection ends
/// are sent again over another.
pub struct FrameProducer {
    pub name: &'static str,
    pub destination: &'static str,
    pub with_length: bool,
    /// Frames in flight.
    pub window: usize,
    pub ledger: Arc<Ledger>,
}

impl FrameProducer {
    /// Sends `count` frames. `next` returns the address for each new connection.
    pub async fn send(&self, count: usize, mut next: impl FnMut() -> SocketAddr) {
        let mut left: VecDeque<String> = (0..count).map(|number| self.body(number)).collect();
        let deadline = Instant::now() + PATIENCE;
        while !left.is_empty() {
            if let Ok(stream) = TcpStream::connect(next()).await {
                let sending = self.converse(stream, &mut left);
                within("frames are answered", sending).await;
            }
            assert!(Instant::now() < deadline, "{} could not send", self.name);
            if !left.is_empty() {
                self.ledger.note_again();
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }

    fn body(&self, number: usize) -> String {
        format!("{{\"from\":\"{}\",\"number\":{number}}}", self.name)
    }

    /// Sends, and removes promised frames from `left`, until none is left or the connection ends.
    async fn converse(&self, stream: TcpStream, left: &mut VecDeque<String>) {
        stream.set_nodelay(true).unwrap();
        let mut stream = BufStream::new(stream);
        let (mut on_the_way, mut refused) = (0, false);
        while !left.is_empty() {
            while !refused && on_the_way < self.window.min(left.len()) {
                if write_frame(&mut stream, &left[on_the_way], self.with_length).await.is_err() {
                    break;
                }
                on_the_way += 1;
            }
            let Ok(Some(answer)) = read_frame(&mut stream, self.with_length).await else { break };
            if let Some(sequence) = answer.strip_prefix("OK ") {
                assert!(!refused, "{answer} after an earlier frame was refused");
                let body = left.pop_front().unwrap();
                on_the_way -= 1;
                self.promised(body, sequence.parse().unwrap());
            } else {
                assert!(answer.starts_with("ERR "), "{answer}");
                refused = true;
            }
        }
        left.iter().take(on_the_way).for_each(|body| self.ledger.doubt(body));
    }

    fn promised(&self, body: String, sequence: u64) {
        self.ledger.promise(Promise {
            destination: self.destination.to_owned(),
            epoch: None,
            sequence,
            id: None,
            key: None,
            body,
            producer: self.name.to_owned(),
        });
    }
}
