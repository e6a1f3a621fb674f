//! Opening one connection.

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    ProtocolVersion, RedisConnectionInfo, RedisError, aio::MultiplexedConnection,
    io::tcp::TcpSettings,
};

use super::error::ClientError;
use crate::config::{Access, Host};

/// Opens one connection.
pub(super) async fn dial(
    info: &ConnectionInfo,
    config: &AsyncConnectionConfig,
    protocol: ProtocolVersion,
) -> Result<MultiplexedConnection, RedisError> {
    let info = tuned(info, protocol);
    Client::open(info)?.get_multiplexed_async_connection_with_config(config).await
}

/// The same address, with the settings that every connection has.
pub(super) fn tuned(info: &ConnectionInfo, protocol: ProtocolVersion) -> ConnectionInfo {
    let settings = info.redis_settings().clone().set_protocol(protocol);
    // redis-rs leaves Nagle's algorithm on, which would delay small calls.
    let settings_of_tcp = TcpSettings::default().set_nodelay(true);
    info.clone().set_redis_settings(settings).set_tcp_settings(settings_of_tcp)
}

/// Where a host is, and as whom to log in there.
pub(super) fn info_of(host: &Host, access: &Access) -> ConnectionInfo {
    let mut settings = RedisConnectionInfo::default().set_db(access.database);
    if let Some(user) = &access.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &access.password {
        settings = settings.set_password(password);
    }
    let address = ConnectionAddr::Tcp(host.0.clone(), host.1);
    // Only a URL can be refused here, and this is an address.
    address.into_connection_info().unwrap_or_else(|_| unreachable!()).set_redis_settings(settings)
}

/// Maps an error while connecting: no call was sent.
pub(super) fn unreached(error: RedisError) -> ClientError {
    match ClientError::from(error) {
        error @ (ClientError::NoRights(_) | ClientError::Unavailable(_)) => error,
        other => ClientError::Unavailable(other.to_string()),
    }
}

/// No connection was made in time: nothing was sent.
pub(super) fn not_in_time() -> ClientError {
    ClientError::Unavailable("no connection in time".into())
}
