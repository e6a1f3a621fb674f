//! A DNS server that answers every name with the same address, or ignores questions about some names.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::net::UdpSocket;
use tokio_util::task::AbortOnDropHandle;

/// The length of the header of a message.
const HEADER: usize = 12;

/// A running server; dropping this stops it.
pub struct Dns {
    pub address: SocketAddr,
    state: Arc<State>,
    _server: AbortOnDropHandle<()>,
}

struct State {
    address: Mutex<Ipv4Addr>,
    ignored: AtomicUsize,
}

impl Dns {
    /// Starts a server on a free port. All names have this address. The server never answers
    /// questions about names that begin with `silent`.
    pub async fn start(of_names: [u8; 4]) -> Dns {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let state = State { address: Mutex::new(of_names.into()), ignored: AtomicUsize::new(0) };
        let state = Arc::new(state);
        let of_server = state.clone();
        let server = tokio::spawn(async move {
            let mut question = [0; 1500];
            loop {
                let Ok((length, from)) = socket.recv_from(&mut question).await else { continue };
                let question = &question[..length];
                let name = question.get(HEADER + 1..).unwrap_or_default();
                let address = *of_server.address.lock().unwrap();
                if name.starts_with(b"silent") {
                    of_server.ignored.fetch_add(1, Ordering::SeqCst);
                } else if let Some(answer) = answer(question, address) {
                    let _ = socket.send_to(&answer, from).await;
                }
            }
        });
        Dns { address, state, _server: AbortOnDropHandle::new(server) }
    }

    /// From now on, all names have this address.
    pub fn turn_to(&self, of_names: [u8; 4]) {
        *self.state.address.lock().unwrap() = of_names.into();
    }

    /// The setting with which pods ask this server.
    pub fn setting(&self) -> String {
        format!("dns_servers = [\"{}\"]\n", self.address)
    }

    /// The number of questions that the server ignored.
    pub fn ignored(&self) -> usize {
        self.state.ignored.load(Ordering::SeqCst)
    }
}

/// The answer: the address if an IPv4 address is asked for, nothing for any other type.
fn answer(question: &[u8], address: Ipv4Addr) -> Option<Vec<u8>> {
    let mut at = HEADER;
    while *question.get(at)? > 0 {
        at += usize::from(question[at]) + 1;
    }
    let end = at + 5;
    let is_v4 = question.get(at + 1..at + 3)? == [0, 1];
    let mut answer = question.get(..end)?.to_vec();
    // A response without an error, with one question and at most one answer.
    answer[2..HEADER].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_v4), 0, 0, 0, 0]);
    if is_v4 {
        // The name of the question, type IPv4, class Internet, no caching, four bytes.
        answer.extend([0xc0, HEADER as u8, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}
