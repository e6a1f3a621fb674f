//! A stream to a receiver of frames, in plain text or over TLS.

use std::{
    io::{self, Read},
    mem::MaybeUninit,
};

use futures::FutureExt;
use socket2::SockRef;
use tokio::{io::AsyncReadExt, net::TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use domain::Ack;

/// With `ack = "none"`, answers of the receiver are discarded before each frame: up to this many reads
/// of [`SCRAP_BYTES`].
const SCRAP_READS_MAX: usize = 16;
const SCRAP_BYTES: usize = 4096;

/// A stream to a receiver.
pub type ReceiverStream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// The TCP stream under a stream to a receiver.
pub fn tcp_of(stream: &ReceiverStream) -> &TcpStream {
    match stream {
        Either::Left(plain) => plain,
        Either::Right(tls) => tls.get_ref().0,
    }
}

/// False if the receiver has closed the connection, or has sent unexpected data. Reads the
/// socket directly, because tokio's view of it may be outdated.
pub async fn is_usable(stream: &mut ReceiverStream, ack: Ack) -> bool {
    match stream {
        Either::Left(plain) => is_plain_usable(plain, ack),
        Either::Right(tls) => is_tls_usable(tls, ack).await,
    }
}

fn is_plain_usable(stream: &TcpStream, ack: Ack) -> bool {
    let socket = SockRef::from(stream);
    let mut scrap = [0; SCRAP_BYTES];
    for _ in 0..SCRAP_READS_MAX {
        match (&*socket).read(&mut scrap) {
            Ok(1..) if ack == Ack::None => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            Ok(_) => return false,
        }
    }
    true
}

/// Unread bytes may belong to TLS itself, such as a session ticket.
async fn is_tls_usable(stream: &mut TlsStream<TcpStream>, ack: Ack) -> bool {
    let mut scrap = [0; SCRAP_BYTES];
    for _ in 0..SCRAP_READS_MAX {
        match stream.read(&mut scrap).now_or_never() {
            Some(Ok(1..)) if ack == Ack::None => continue,
            Some(_) => return false,
            None => {}
        }
        let socket = stream.get_ref().0;
        match SockRef::from(socket).peek(&mut [MaybeUninit::uninit()]) {
            Ok(0) => return false,
            // Bytes have arrived. Wait until tokio sees them.
            Ok(_) if socket.readable().await.is_ok() => {}
            Ok(_) => return false,
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
    true
}
