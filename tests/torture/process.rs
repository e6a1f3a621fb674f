//! A receiver in a separate process, so that SIGKILL can kill it. It writes each accepted message
//! to the disk before it answers.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::support::{
    http::{Answer, serve_at},
    journal::{Delivery, Headers, Journal},
    ports::free_address,
    receiver::delivered,
    wait::{LOOK_EVERY, eventually},
};

/// The address and the file of the process. Only the process has this variable.
const TOLD: &str = "TORTURE_RECEIVER";
/// The test that runs as the process.
const TEST: &str = "process::receives_if_it_is_told_to";

/// The process. Dropping this ends it.
pub struct ReceiverProcess {
    pub address: SocketAddr,
    file: PathBuf,
    child: Mutex<Child>,
    /// The number of bytes read from the file.
    read: Arc<Mutex<u64>>,
    _reading: AbortOnDropHandle<()>,
}

impl ReceiverProcess {
    /// Starts the process with this file. Adds every message that it accepts to the journal.
    pub async fn start(file: &Path, journal: &Arc<Journal>) -> ReceiverProcess {
        File::create(file).expect("the receiver's file can be made");
        let address = free_address();
        let child = Mutex::new(spawn(address, file));
        let read = Arc::new(Mutex::new(0));
        let (file, journal) = (file.to_owned(), journal.clone());
        let reading = tokio::spawn(read_on(file.clone(), read.clone(), journal));
        let _reading = AbortOnDropHandle::new(reading);
        let process = ReceiverProcess { address, file, child, read, _reading };
        process.is_there().await;
        process
    }

    /// Ends it with SIGKILL.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Starts it again at the same address, after [`kill`](ReceiverProcess::kill).
    pub async fn restart(&self) {
        let child = spawn(self.address, &self.file);
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = child;
        self.is_there().await;
    }

    async fn is_there(&self) {
        eventually("the receiver's process listens", async || {
            let connected = tokio::net::TcpStream::connect(self.address).await;
            connected.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }

    /// Waits until the journal has all messages in the file.
    pub async fn is_read(&self) {
        let length = std::fs::metadata(&self.file).map_or(0, |file| file.len());
        eventually("what the receiver wrote was read", async || {
            let read = *self.read.lock().unwrap();
            if read >= length { Ok(()) } else { Err(format!("{read} of {length}")) }
        })
        .await;
    }
}

impl Drop for ReceiverProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(address: SocketAddr, file: &Path) -> Child {
    let program = std::env::current_exe().expect("a test knows its program");
    let mut command = Command::new(program);
    command.args([TEST, "--exact", "--nocapture"]);
    command.env(TOLD, format!("{address} {}", file.display()));
    // The process ends when its input ends, so it does not outlive the test.
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    command.spawn().expect("the receiver's process starts")
}

/// Adds each complete line of the file to the journal, endlessly.
async fn read_on(path: PathBuf, read: Arc<Mutex<u64>>, journal: Arc<Journal>) {
    let mut file = File::open(path).expect("the receiver's file is there");
    let mut text = Vec::new();
    loop {
        // The bytes read so far end with a complete line.
        let from = *read.lock().unwrap();
        text.clear();
        let came = file.seek(SeekFrom::Start(from)).and_then(|_| file.read_to_end(&mut text));
        came.expect("the receiver's file can be read");
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            journal.note(delivery(line));
        }
        *read.lock().unwrap() = from + whole as u64;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn line(delivery: &Delivery) -> String {
    let headers = delivery.headers.as_ref().map(|headers| {
        let Headers { epoch, sequence, previous, id, key, attempt } = headers;
        json!([epoch, sequence, previous, id, key, attempt])
    });
    format!("{}\n", json!([delivery.destination, delivery.body, headers]))
}

fn delivery(line: &[u8]) -> Delivery {
    let line: Value = serde_json::from_slice(line).expect("a line was written whole");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |at: usize| line[2][at].as_u64().unwrap_or_default();
    let headers = line[2].is_array().then(|| Headers {
        epoch: number(0),
        sequence: number(1),
        previous: number(2),
        id: text(&line[2][3]),
        key: line[2][4].as_str().map(str::to_owned),
        attempt: number(5),
    });
    Delivery { destination: text(&line[0]), body: text(&line[1]), headers }
}

/// Cuts off an incomplete line: its request was not answered.
fn end_at_a_line(file: &mut File) -> std::io::Result<()> {
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    file.set_len(whole as u64)
}

/// Without the variable, this test does nothing. With it, this is the receiver process, and ends
/// with its input.
#[tokio::test]
async fn receives_if_it_is_told_to() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let (address, path) = told.split_once(' ').expect("an address and a file");
    let mut file = OpenOptions::new().read(true).append(true).open(path).unwrap();
    end_at_a_line(&mut file).unwrap();
    let file = Arc::new(Mutex::new(file));
    let (_, _server) = serve_at(address.parse().unwrap(), move |request| {
        let file = file.clone();
        async move {
            let line = line(&delivered(request));
            let mut file = file.lock().unwrap();
            file.write_all(line.as_bytes()).and_then(|()| file.sync_data()).unwrap();
            Some(Answer::status(200))
        }
    })
    .await;
    let ends = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let _ = ends.await;
}
