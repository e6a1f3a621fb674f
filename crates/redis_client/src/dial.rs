//! Opens one connection, in plain text or over TLS.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo,
    IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, RedisError, TlsCertificates,
    aio::MultiplexedConnection, io::tcp::TcpSettings,
};

use rustls::ClientConfig;

use super::error::ClientError;
use config::{Access, ClientTls, Host};
use tls::{Files, Pem, Reloaded, Unusable};

/// Opens all connections of one client. Cheap to clone.
#[derive(Clone)]
pub(super) struct Dialer(Option<Arc<Reloaded<Tls>>>);

/// The certificates and keys read from the files, for redis-rs and for [`tls::look`].
struct Tls {
    certificates: TlsCertificates,
    settings: Arc<ClientConfig>,
}

/// The certificates of a connection. Two values are equal if the files did not change between them.
#[derive(Clone)]
pub(super) struct Certificates(Option<Arc<Tls>>);

impl PartialEq for Certificates {
    fn eq(&self, other: &Certificates) -> bool {
        self.0.as_ref().map(Arc::as_ptr) == other.0.as_ref().map(Arc::as_ptr)
    }
}

impl Dialer {
    /// Opens connections over TLS if `tls` is given.
    pub(super) fn new(tls: Option<&ClientTls>) -> Result<Dialer, ClientError> {
        let Some(tls) = tls else { return Ok(Dialer(None)) };
        tls::install();
        let files = Files::of_client("redis.tls", tls);
        let certificates = Reloaded::open(files, for_clients)
            .map_err(|error| ClientError::Unavailable(error.to_string()))?;
        Ok(Dialer(Some(Arc::new(certificates))))
    }

    /// Opens one connection.
    pub(super) async fn dial(
        &self,
        info: &ConnectionInfo,
        config: &AsyncConnectionConfig,
        protocol: ProtocolVersion,
    ) -> Result<MultiplexedConnection, RedisError> {
        let certificates = self.certificates();
        let client = Client::open(tuned(info, protocol, &certificates)?)?;
        let connection = client.get_multiplexed_async_connection_with_config(config).await?;
        if let (Some(tls), ConnectionAddr::TcpTls { host, port, .. }) =
            (certificates.0, info.addr())
        {
            tls::look(host, *port, tls.settings.clone());
        }
        Ok(connection)
    }

    /// The certificates for a new connection.
    pub(super) fn certificates(&self) -> Certificates {
        Certificates(self.0.as_ref().map(|files| files.current()))
    }

    /// The address of a host, and the credentials for it.
    pub(super) fn info_of(&self, host: &Host, access: &Access) -> ConnectionInfo {
        let mut settings = RedisConnectionInfo::default().set_db(access.database);
        if let Some(user) = &access.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &access.password {
            settings = settings.set_password(password);
        }
        let (host, port) = host.clone();
        let address = match self.0 {
            Some(_) => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            None => ConnectionAddr::Tcp(host, port),
        };
        // Cannot fail: the conversion only refuses URLs, and this is an address.
        address
            .into_connection_info()
            .unwrap_or_else(|_| unreachable!())
            .set_redis_settings(settings)
    }
}

/// Adds the settings that all connections have to an address.
pub(super) fn tuned(
    info: &ConnectionInfo,
    protocol: ProtocolVersion,
    certificates: &Certificates,
) -> Result<ConnectionInfo, RedisError> {
    let settings = info.redis_settings().clone().set_protocol(protocol);
    // redis-rs leaves Nagle's algorithm on, which would delay small calls.
    let settings_of_tcp = TcpSettings::default().set_nodelay(true);
    let info = info.clone().set_redis_settings(settings).set_tcp_settings(settings_of_tcp);
    match &certificates.0 {
        Some(certificates) => {
            let client = Client::build_with_tls(info, certificates.certificates.clone())?;
            Ok(client.get_connection_info().clone())
        }
        None => Ok(info),
    }
}

/// Converts certificates. redis-rs uses its built-in roots only if it gets no roots.
fn for_clients(pem: &Pem) -> Result<Tls, Unusable> {
    let of_system = tls::system_roots();
    // Fails if rustls cannot use the certificates.
    let settings = Arc::new(tls::client_with(pem, of_system.clone())?);
    let mut roots = Vec::new();
    for certificate in of_system {
        let text = BASE64_STANDARD.encode(&certificate);
        let text = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
        roots.extend_from_slice(text.as_bytes());
    }
    roots.extend_from_slice(pem.ca.as_deref().unwrap_or_default());
    let client_tls = pem
        .identity
        .clone()
        .map(|(certificate, key)| ClientTlsConfig { client_cert: certificate, client_key: key });
    let root_cert = Some(roots).filter(|roots| !roots.is_empty());
    Ok(Tls { certificates: TlsCertificates { client_tls, root_cert }, settings })
}

/// Maps an error while connecting: no call was sent. A server may also refuse the commands that set up a connection.
pub(super) fn unreached(error: RedisError) -> ClientError {
    use ClientError as E;
    match E::from(error) {
        error @ (E::NoRights(_) | E::Unavailable(_) | E::RefusesWrites(_)) => error,
        other => E::Unavailable(other.to_string()),
    }
}

/// The error if no connection was made in time: the call was not sent.
pub(super) fn not_in_time() -> ClientError {
    ClientError::Unavailable("no connection in time".into())
}
