//! Parses the URL of Redis: a single server, Sentinel, or a cluster.

use percent_encoding::percent_decode_str;

use domain::destination::MASK;

/// A host name or address, and a port.
pub type Host = (String, u16);

/// Credentials, and the number of the database.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// The name of an ACL user.
    pub user: Option<String>,
    /// The password of this user, or of the server.
    pub password: Option<String>,
    /// The number of the database.
    pub database: i64,
}

/// The topology that the URL describes.
#[derive(Clone, PartialEq, Eq)]
pub enum Topology {
    /// A fixed single server.
    Single {
        /// The URL, unchanged.
        url: String,
    },
    /// A primary that the sentinels name.
    Sentinel {
        /// The sentinels.
        sentinels: Vec<Host>,
        /// The name of the service on the sentinels.
        service: String,
        /// Credentials for the primary.
        access: Access,
        /// True if all connections are over TLS.
        is_tls: bool,
    },
    /// A Redis Cluster.
    Cluster {
        /// Some nodes of the cluster. Reseq asks them for the other nodes.
        nodes: Vec<Host>,
        /// Credentials for all nodes.
        access: Access,
        /// True if all connections are over TLS.
        is_tls: bool,
    },
}

const SHAPES: &str = "write redis://[user:password@]host:port[/database], unix:///path/to/socket, \
     redis+sentinel://[user:password@]host:port,host:port,…/service-name[/database] or \
     redis+cluster://[user:password@]host:port,host:port,… (over TLS: rediss:// in place of redis://, \
     rediss+sentinel://, rediss+cluster://); or write embedded for a redis-server of Reseq's own";

impl Topology {
    /// Parses a URL. An error is a sentence that never contains a password.
    pub fn parse(url: &str) -> Result<Topology, String> {
        let (scheme, rest) = url.split_once("://").ok_or(SHAPES)?;
        match scheme {
            "redis" | "rediss" | "unix" | "redis+unix" => match url::Url::parse(url) {
                Ok(parsed)
                    if scheme.starts_with("redis")
                        && scheme != "redis+unix"
                        && parsed.host_str().is_none_or(str::is_empty) =>
                {
                    Err(format!("the host is missing: {SHAPES}"))
                }
                // With #insecure, redis-rs would not check certificates.
                Ok(parsed) if parsed.fragment().is_some() => {
                    Err("the URL must have no part after #; certificates are always checked".into())
                }
                Ok(_) => Ok(Topology::Single { url: url.to_owned() }),
                Err(_) => Err(SHAPES.into()),
            },
            "redis+sentinel" | "rediss+sentinel" => sentinel(rest, scheme.starts_with("rediss")),
            "redis+cluster" | "rediss+cluster" => cluster(rest, scheme.starts_with("rediss")),
            _ => Err(SHAPES.into()),
        }
    }

    /// True if all connections are over TLS.
    pub fn is_tls(&self) -> bool {
        match self {
            Topology::Single { url } => url.starts_with("rediss://"),
            Topology::Sentinel { is_tls, .. } | Topology::Cluster { is_tls, .. } => *is_tls,
        }
    }

    /// The URL with its password masked, for display.
    pub fn masked(&self) -> String {
        let list = |hosts: &[Host]| {
            let hosts = hosts.iter().map(|(host, port)| match host.contains(':') {
                true => format!("[{host}]:{port}"),
                false => format!("{host}:{port}"),
            });
            hosts.collect::<Vec<_>>().join(",")
        };
        let redis = if self.is_tls() { "rediss" } else { "redis" };
        match self {
            Topology::Single { url } => masked_url(url),
            Topology::Sentinel { sentinels, service, access, .. } => {
                let database = match access.database {
                    0 => String::new(),
                    number => format!("/{number}"),
                };
                let sentinels = list(sentinels);
                format!("{redis}+sentinel://{}{sentinels}/{service}{database}", access.masked())
            }
            Topology::Cluster { nodes, access, .. } => {
                format!("{redis}+cluster://{}{}", access.masked(), list(nodes))
            }
        }
    }
}

impl Access {
    fn masked(&self) -> String {
        let user = self.user.as_deref().unwrap_or_default();
        match &self.password {
            Some(_) => format!("{user}:{MASK}@"),
            None if user.is_empty() => String::new(),
            None => format!("{user}@"),
        }
    }
}

fn masked_url(url: &str) -> String {
    match url::Url::parse(url) {
        Ok(mut url) => {
            if url.password().is_some() {
                let _ = url.set_password(Some(MASK));
            }
            // A unix: URL has its user and password in the query.
            url.set_query(None);
            url.into()
        }
        Err(_) => "(not a URL)".into(),
    }
}

fn sentinel(rest: &str, is_tls: bool) -> Result<Topology, String> {
    let (mut access, rest) = access_of(rest)?;
    let (sentinels, path) = rest
        .split_once('/')
        .ok_or("name the service after the sentinels: redis+sentinel://host:port,…/service-name")?;
    let (service, database) = path.split_once('/').unwrap_or((path, ""));
    if service.is_empty() || database.contains('/') {
        return Err(format!("the name of the service is missing or not one word: {SHAPES}"));
    }
    let sentinels = hosts_of(sentinels)?;
    if !database.is_empty() {
        let number = database.parse().ok().filter(|number| *number >= 0);
        access.database = number.ok_or("the database after the service is a number from 0 on")?;
    }
    Ok(Topology::Sentinel { sentinels, service: service.to_owned(), access, is_tls })
}

fn cluster(rest: &str, is_tls: bool) -> Result<Topology, String> {
    let (access, nodes) = access_of(rest)?;
    let nodes = nodes.strip_suffix('/').unwrap_or(nodes);
    if nodes.contains('/') {
        return Err("a Redis Cluster has one database only: end the URL after the hosts".into());
    }
    Ok(Topology::Cluster { nodes: hosts_of(nodes)?, access, is_tls })
}

/// Splits the user and password from the rest of the URL. A password may contain `/` and `@`.
fn access_of(rest: &str) -> Result<(Access, &str), String> {
    let mut access = Access::default();
    let Some((info, rest)) = rest.rsplit_once('@') else { return Ok((access, rest)) };
    let decoded = |text: &str| {
        let text = percent_decode_str(text).decode_utf8();
        text.map(|text| text.into_owned()).map_err(|_| "user and password must be UTF-8")
    };
    let (user, password) = match info.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (info, None),
    };
    access.user = Some(decoded(user)?).filter(|user| !user.is_empty());
    access.password = password.map(decoded).transpose()?;
    Ok((access, rest))
}

fn hosts_of(text: &str) -> Result<Vec<Host>, String> {
    text.split(',').enumerate().map(|(index, text)| host(index + 1, text)).collect()
}

/// Parses host number `number`. Errors never quote the text, which may be a misplaced password.
fn host(number: usize, text: &str) -> Result<Host, String> {
    let (host, port) =
        text.rsplit_once(':').ok_or_else(|| format!("host {number} names no port: host:port"))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().map_err(|_| format!("host {number} has no port from 1 to 65535"))?;
    match host.is_empty() || port == 0 || host.contains(['/', '?', '#']) {
        true => Err(format!("host {number} is not host:port")),
        false => Ok((host.to_owned(), port)),
    }
}
