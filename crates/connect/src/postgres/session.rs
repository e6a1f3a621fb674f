//! One connection to Postgres over the replication protocol, which also takes plain queries.
//!
//! The framing, the messages and SCRAM come from `pgwire-replication`. Its client is not used: it has no TLS without a
//! second cryptography library, and it reports one position, but the delay of `confirm_delay_ms` needs two.

use std::{future::Future, time::Duration};

use bytes::{Buf, Bytes};
use pgwire_replication::{
    Lsn, PgWireError,
    auth::ScramClient,
    protocol::{
        BackendMessage, ErrorFields, ReplicationCopyData, framing, parse_auth_request,
        parse_copy_data, replication,
    },
};
use tls::Connector;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, BufReader},
    net::TcpStream,
};

use crate::source::Fault;

/// Time limit of a connection with its handshakes, and of a query.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The longest message of Postgres, and with it the longest row, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// The most bytes of one read.
const READ_BYTES: usize = 128 << 10;

/// The address of Postgres, and the user.
#[derive(Clone)]
pub struct Target {
    pub host: String,
    pub port: u16,
    pub database: String,
    pub user: String,
    pub password: Option<String>,
    pub tls: Option<Connector>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A connection of a user who has logged in.
pub struct Session {
    stream: BufReader<Box<dyn Stream>>,
    reader: framing::MessageReader,
    /// The number of bytes still to be skipped of a message that is too long.
    rest: usize,
}

/// The next part of a slot.
pub enum Next {
    Data(ReplicationCopyData),
    /// A message that is too long, with its number of bytes.
    TooLong(usize),
}

/// A row: the text of each column; `None`: null.
pub type Row = Vec<Option<String>>;

/// The fault for an error of Postgres, which has a SQLSTATE and a text.
fn refused(payload: &[u8]) -> Fault {
    let fields = ErrorFields::parse(payload);
    let text = format!("Postgres says: {}", fields.to_error_string());
    match fields.code.as_deref().unwrap_or_default() {
        // Postgres decodes rows with the catalog of their time, in which something did not exist.
        "42704" => Fault::Halted(format!(
            "{text}. If check finds it: it is newer than the rows that are read. Drop the slot, insert again what was \
             not delivered, and begin with --begin-at oldest"
        )),
        // Another client reads the slot.
        "55006" => Fault::Standby(text),
        // Errors of connections or resources, or by an operator; or the server starts or stops.
        code if ["08", "53", "57"].iter().any(|class| code.starts_with(class)) => {
            Fault::Later(text)
        }
        _ => Fault::Halted(text),
    }
}

impl From<PgWireError> for Fault {
    fn from(error: PgWireError) -> Fault {
        Fault::Later(format!("the connection to Postgres: {error}"))
    }
}

fn reader() -> framing::MessageReader {
    framing::MessageReader::new().with_max_message_size(MESSAGE_BYTES_MAX)
}

pub async fn in_time<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let late = Fault::Later(format!("Postgres does not answer within {ANSWER_MAX:?}"));
    tokio::time::timeout(ANSWER_MAX, work).await.unwrap_or(Err(late))
}

impl Session {
    /// Connects and logs in.
    pub async fn connect(target: &Target) -> Result<Session, Fault> {
        let Target { host, port, tls, .. } = target;
        let unreachable = |error| Fault::Later(format!("{host}:{port} cannot be reached: {error}"));
        in_time(async {
            let mut tcp = TcpStream::connect((host.as_str(), *port)).await.map_err(unreachable)?;
            tcp.set_nodelay(true).map_err(unreachable)?;
            let stream: Box<dyn Stream> = match tls {
                None => Box::new(tcp),
                Some(tls) => {
                    framing::write_ssl_request(&mut tcp).await?;
                    if tcp.read_u8().await.map_err(unreachable)? != b'S' {
                        return Err(Fault::Halted(format!("{host}:{port} does not speak TLS")));
                    }
                    Box::new(tls.connect(host, tcp).await.map_err(unreachable)?)
                }
            };
            let stream = BufReader::with_capacity(READ_BYTES, stream);
            let mut session = Session { stream, reader: reader(), rest: 0 };
            session.log_in(target).await?;
            Ok(session)
        })
        .await
    }

    async fn read(&mut self) -> Result<BackendMessage, Fault> {
        let message = self.reader.read(&mut self.stream).await?;
        match message.is_error() {
            true => Err(refused(&message.payload)),
            false => Ok(message),
        }
    }

    async fn log_in(&mut self, target: &Target) -> Result<(), Fault> {
        let parameters = [
            ("user", target.user.as_str()),
            ("database", &target.database),
            ("replication", "database"),
            ("client_encoding", "UTF8"),
            ("application_name", "reseq-connect"),
        ];
        framing::write_startup_message(&mut self.stream, 196_608, &parameters).await?;
        let password = || {
            let missing = "Postgres wants a password: set password_file".to_owned();
            target.password.as_deref().ok_or(Fault::Halted(missing))
        };
        loop {
            let message = self.read().await?;
            if message.is_ready_for_query() {
                return Ok(());
            }
            if !message.is_auth_request() {
                continue;
            }
            match parse_auth_request(&message.payload)? {
                (0, _) => {}
                (3, _) if target.tls.is_some() => {
                    let text = [password()?.as_bytes(), b"\0"].concat();
                    framing::write_password_message(&mut self.stream, &text).await?;
                }
                (10, _) => self.prove(&target.user, password()?).await?,
                _ => {
                    let text = "Postgres wants another proof than SCRAM-SHA-256 (or a password over TLS): set \
                                password_encryption and the method in pg_hba.conf to scram-sha-256";
                    return Err(Fault::Halted(text.to_owned()));
                }
            }
        }
    }

    /// Authenticates with the password (SCRAM-SHA-256).
    async fn prove(&mut self, user: &str, password: &str) -> Result<(), Fault> {
        let scram = ScramClient::new(user);
        let mut first = b"SCRAM-SHA-256\0".to_vec();
        first.extend_from_slice(&(scram.client_first.len() as u32).to_be_bytes());
        first.extend_from_slice(scram.client_first.as_bytes());
        framing::write_password_message(&mut self.stream, &first).await?;
        let challenge = self.challenge(11).await?;
        let (last, transcript, salted) = scram.client_final(password, &challenge)?;
        framing::write_password_message(&mut self.stream, last.as_bytes()).await?;
        let proof = self.challenge(12).await?;
        ScramClient::verify_server_final(&proof, &salted, &transcript)
            .map_err(|error| Fault::Halted(format!("Postgres does not prove who it is: {error}")))
    }

    async fn challenge(&mut self, expected: i32) -> Result<String, Fault> {
        let message = self.read().await?;
        match parse_auth_request(&message.payload)? {
            (kind, data) if message.is_auth_request() && kind == expected => {
                Ok(String::from_utf8_lossy(data).into_owned())
            }
            (kind, _) => Err(Fault::Later(format!("an unexpected step of the login: {kind}"))),
        }
    }

    /// Returns the rows of a query. Has no time limit.
    pub async fn query(&mut self, sql: &str) -> Result<Vec<Row>, Fault> {
        framing::write_query(&mut self.stream, sql).await?;
        let (mut rows, mut problem) = (Vec::new(), None);
        loop {
            let message = self.reader.read(&mut self.stream).await?;
            match message.tag {
                b'D' => rows.push(row(message.payload).ok_or_else(cut_short)?),
                b'E' => problem = Some(refused(&message.payload)),
                b'Z' => return problem.map_or(Ok(rows), Err),
                _ => {}
            }
        }
    }

    /// Begins to read a slot.
    pub async fn start(&mut self, slot: &str, from: Lsn, publication: &str) -> Result<(), Fault> {
        let publication = format!("\"{}\"", publication.replace('"', "\"\"")).replace('\'', "''");
        let sql = format!(
            "START_REPLICATION SLOT \"{slot}\" LOGICAL {from} \
             (proto_version '1', publication_names '{publication}', messages 'true')"
        );
        in_time(async {
            framing::write_query(&mut self.stream, &sql).await?;
            while !self.read().await?.is_copy_both_response() {}
            Ok(())
        })
        .await
    }

    /// Reads the next part of the slot. Cancel-safe.
    pub async fn next(&mut self) -> Result<Next, Fault> {
        loop {
            while self.rest > 0 {
                let bytes = self.stream.fill_buf().await.map_err(PgWireError::from)?;
                let count = bytes.len().min(self.rest);
                if count == 0 {
                    return Err(cut_short());
                }
                self.stream.consume(count);
                self.rest -= count;
            }
            let message = match self.reader.read(&mut self.stream).await {
                // Only the head of the message has been read.
                Err(PgWireError::MessageTooLarge { payload_bytes, .. }) => {
                    (self.reader, self.rest) = (reader(), payload_bytes);
                    return Ok(Next::TooLong(payload_bytes));
                }
                message => message?,
            };
            if message.is_error() {
                return Err(refused(&message.payload));
            }
            if message.is_copy_data() {
                return Ok(Next::Data(parse_copy_data(message.payload)?));
            }
            if message.tag == b'c' {
                return Err(Fault::Later("Postgres has ended the replication".to_owned()));
            }
        }
    }

    /// Reports how far this side is: everything before `received` was read, and everything before `confirmed` will not
    /// be needed again (0: nothing is confirmed). Postgres answers with its own position.
    pub async fn report(&mut self, received: Lsn, confirmed: Lsn) -> Result<(), Fault> {
        let mut status = replication::encode_standby_status_update(confirmed, 0, true);
        // The first number, after the kind, is the received position.
        status[1..9].copy_from_slice(&received.0.to_be_bytes());
        Ok(framing::write_copy_data(&mut self.stream, &status).await?)
    }
}

/// The fault for a message that ends too early.
pub fn cut_short() -> Fault {
    Fault::Later("a message of Postgres is cut short".to_owned())
}

fn row(mut payload: Bytes) -> Option<Row> {
    let columns = payload.try_get_u16().ok()?;
    let column = |_| {
        let length = payload.try_get_i32().ok()?;
        let Ok(length) = usize::try_from(length) else { return Some(None) };
        let text = (payload.remaining() >= length).then(|| payload.split_to(length))?;
        Some(Some(String::from_utf8_lossy(&text).into_owned()))
    };
    (0..columns).map(column).collect()
}
