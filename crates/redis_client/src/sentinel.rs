//! Finds the primary: the server that most sentinels name, if it confirms that it has this role.

use std::{collections::HashMap, time::Duration};

use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use parking_lot::Mutex;
use redis::{
    AsyncConnectionConfig, ConnectionInfo, FromRedisValue, ProtocolVersion, RedisResult,
    aio::MultiplexedConnection,
};

use super::{
    dial::{Dialer, unreached},
    error::{ClientError, is_broken},
};
use config::{Access, Host};

/// A sentinel that does not answer within this time is not counted.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The answers of a sentinel about its service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentinelState {
    /// The address of the primary that it names; `None` if it does not know the service.
    pub primary: Option<String>,
    /// The sentinel's error message, if the sentinels could not agree on another primary now.
    pub refusal: Option<String>,
}

/// The sentinels of one service.
pub(super) struct Sentinels {
    /// Each sentinel, with its connection if there is one.
    all: Vec<(ConnectionInfo, Mutex<Option<MultiplexedConnection>>)>,
    service: String,
    dialer: Dialer,
    /// Credentials for the primary.
    access: Access,
    /// The primary of the last connection.
    current: Mutex<Option<Host>>,
}

impl Sentinels {
    pub(super) fn new(
        hosts: &[Host],
        own: &Access,
        service: &str,
        access: &Access,
        dialer: &Dialer,
    ) -> Sentinels {
        let info = |host: &Host| (dialer.info_of(host, own), Mutex::default());
        let all = hosts.iter().map(info).collect();
        let (service, access, dialer) = (service.to_owned(), access.clone(), dialer.clone());
        Sentinels { all, service, dialer, access, current: Mutex::default() }
    }

    /// The primary that most sentinels name. Returns as soon as more than half of the sentinels name the same
    /// primary.
    pub(super) async fn primary(&self) -> Result<Host, ClientError> {
        let mut asked: FuturesUnordered<_> =
            (0..self.all.len()).map(|index| self.ask(index)).collect();
        let mut votes: HashMap<Host, usize> = HashMap::new();
        let mut problem = "no sentinel answers".to_owned();
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(Some(host)) => {
                    let count = votes.entry(host.clone()).or_default();
                    *count += 1;
                    if *count * 2 > self.all.len() {
                        return Ok(host);
                    }
                }
                Ok(None) => problem = format!("the sentinels know no service {:?}", self.service),
                Err(error) => problem = format!("a sentinel: {error}"),
            }
        }
        let most = votes.into_iter().max_by_key(|(_, count)| *count);
        most.map(|(host, _)| host).ok_or(ClientError::Unavailable(problem))
    }

    /// The primary of the last connection.
    pub(super) fn current(&self) -> Option<Host> {
        self.current.lock().clone()
    }

    /// The name of the primary for people: its address, once known.
    pub(super) fn name(&self) -> String {
        match self.current() {
            Some((host, port)) => format!("{host}:{port}"),
            None => format!("the primary of {:?}", self.service),
        }
    }

    /// The address of the primary, and the credentials for it.
    pub(super) async fn primary_info(&self) -> Result<ConnectionInfo, ClientError> {
        Ok(self.dialer.info_of(&self.primary().await?, &self.access))
    }

    async fn ask(&self, index: usize) -> Result<Option<Host>, String> {
        self.ask_for(index, "GET-MASTER-ADDR-BY-NAME").await
    }

    /// The address of each sentinel. With it, the primary that the sentinel names and the problem that it reports
    /// with a failover (`NOQUORUM …`), or the reason why it does not answer.
    pub(super) async fn examine(&self) -> Vec<(String, Result<SentinelState, String>)> {
        let asked = self.all.iter().enumerate().map(|(index, (info, _))| async move {
            let state = async {
                let primary = self.ask(index).await?;
                let primary = primary.map(|(host, port)| format!("{host}:{port}"));
                let quorum = self.ask_for::<String>(index, "CKQUORUM").await;
                let refusal = quorum.err().filter(|error| error.contains("QUORUM"));
                Ok(SentinelState { primary, refusal })
            };
            (info.addr().to_string(), state.await)
        });
        join_all(asked).await
    }

    /// Sends this subcommand, with the name of the service.
    async fn ask_for<T: FromRedisValue>(&self, index: usize, what: &str) -> Result<T, String> {
        let asked = tokio::time::timeout(ANSWER_MAX, self.ask_on(index, what)).await;
        let answer = asked.map_err(|_| "no answer".to_owned())?;
        if answer.as_ref().is_err_and(is_broken) {
            *self.all[index].1.lock() = None;
        }
        answer.map_err(|error| error.to_string())
    }

    async fn ask_on<T: FromRedisValue>(&self, index: usize, what: &str) -> RedisResult<T> {
        let (info, kept) = &self.all[index];
        let known = kept.lock().clone();
        let mut connection = match known {
            Some(connection) => connection,
            None => {
                let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_MAX));
                let fresh = self.dialer.dial(info, &config, ProtocolVersion::RESP2).await?;
                *kept.lock() = Some(fresh.clone());
                fresh
            }
        };
        let mut ask = redis::cmd("SENTINEL");
        ask.arg(what).arg(&self.service);
        ask.query_async(&mut connection).await
    }

    /// Connects to the primary, and checks that it reports the role of a primary.
    pub(super) async fn dial_primary(
        &self,
        config: &AsyncConnectionConfig,
        protocol: ProtocolVersion,
    ) -> Result<MultiplexedConnection, ClientError> {
        let host = self.primary().await?;
        let info = self.dialer.info_of(&host, &self.access);
        let mut connection = self.dialer.dial(&info, config, protocol).await.map_err(unreached)?;
        let role: Vec<redis::Value> =
            redis::cmd("ROLE").query_async(&mut connection).await.map_err(unreached)?;
        let role = role.into_iter().next().and_then(|role| redis::from_redis_value(role).ok());
        let role: String = role.unwrap_or_default();
        if role != "master" {
            let (name, port) = host;
            return Err(ClientError::Unavailable(format!(
                "the sentinels name {name}:{port}, which still reports the role {role:?}"
            )));
        }
        let mut current = self.current.lock();
        let before = current.replace(host.clone()).filter(|before| *before != host);
        drop(current);
        if let Some((before, port)) = before {
            let (name, now_port) = host;
            tracing::warn!(
                before = %format_args!("{before}:{port}"), now = %format_args!("{name}:{now_port}"),
                "another Redis server is the primary",
            );
        }
        Ok(connection)
    }

    /// True if the sentinels now name another primary than at the last connection.
    pub(super) async fn has_moved(&self) -> bool {
        let known = self.current.lock().clone();
        match (known, self.primary().await) {
            (Some(known), Ok(now)) => known != now,
            _ => false,
        }
    }
}
