//! TLS on every connection of the pods, in storms with TLS: to Redis, from producers, to
//! receivers and to the transform, both sides with certificates. In the middle of the storm all
//! certificates change. The pods and receivers get certificates of another authority.
//!
//! The faults still happen on plain connections of this process:
//!
//! ```text
//! producer ─► link ─► TLS ─► pod ─► TLS ─► link ─► receiver
//!                           pod ─► TLS ─► link ─► TLS ─► Redis
//! ```

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::sleep;

use crate::{
    servers::Servers,
    support::{
        certificates::{Authority, Identity, replace},
        pods::Settings,
        tls::{Party, Relay, Target},
    },
};

/// Longer than a pod takes to read changed files.
const READ_AGAIN: Duration = Duration::from_millis(2500);

/// The certificates, and the relays that speak TLS.
pub struct Encryption {
    /// The authority of Redis and its clients. It stays, because Redis trusts one authority.
    of_redis: Authority,
    /// The authority of all others, at the beginning.
    before: Authority,
    /// The authority of all others, from the middle of the storm on.
    after: Authority,
    redis_server: Identity,
    redis_client: Identity,
    pod: Identity,
    producer: Identity,
    receiver: Identity,
    reseq: Identity,
    relays: Mutex<Vec<Relay>>,
}

impl Encryption {
    pub fn new() -> Encryption {
        // If an authority had the name of a certificate that it issues, servers would take that
        // certificate for self-signed.
        let (of_redis, before) = (Authority::new("authority of redis"), Authority::new("before"));
        Encryption {
            redis_server: of_redis.issue("link"),
            redis_client: of_redis.issue("reseq"),
            pod: before.issue("pod"),
            producer: before.issue("producer"),
            receiver: before.issue("receiver"),
            reseq: before.issue("reseq"),
            of_redis,
            before,
            after: Authority::new("after"),
            relays: Mutex::default(),
        }
    }

    /// The authority of the servers of Redis.
    pub fn of_redis(&self) -> &Authority {
        &self.of_redis
    }

    /// Makes pods use only TLS.
    pub fn applied_to(&self, settings: &mut Settings) {
        let section = |ca: &Authority, identity: &Identity| {
            format!(
                "\ntls = {{ ca_file = {:?}, certificate_file = {:?}, key_file = {:?} }}",
                ca.ca_file(),
                identity.certificate,
                identity.key
            )
        };
        settings.redis += &section(&self.of_redis, &self.redis_client);
        settings.outgoing += &section(&self.before, &self.reseq);
        let ca_file = self.before.ca_file();
        let party =
            |identity: &Identity| Party { identity: identity.clone(), ca_file: ca_file.clone() };
        settings.tls = Some((party(&self.pod), party(&self.producer)));
    }

    /// The address of a relay that speaks TLS before a plain receiver.
    pub fn before_receiver(&self, target: SocketAddr) -> SocketAddr {
        let party = Party { identity: self.receiver.clone(), ca_file: self.before.ca_file() };
        self.keep(Relay::terminating(Arc::new(move || Some(target)), party))
    }

    /// A plain address of a Redis server that uses only TLS.
    pub fn behind_redis(&self, target: Target) -> SocketAddr {
        let party = Party { identity: self.redis_client.clone(), ca_file: self.of_redis.ca_file() };
        self.keep(Relay::originating(target, party))
    }

    /// An address over TLS, before a link to a server of Redis.
    pub fn before_link(&self, target: SocketAddr) -> SocketAddr {
        let party = Party { identity: self.redis_server.clone(), ca_file: self.of_redis.ca_file() };
        self.keep(Relay::terminating(Arc::new(move || Some(target)), party))
    }

    fn keep(&self, relay: Relay) -> SocketAddr {
        let address = relay.address;
        self.relays.lock().unwrap().push(relay);
        address
    }

    /// Changes all certificates without an interruption: first, all processes trust both authorities.
    pub async fn rotate(&self, redis: &tokio::sync::Mutex<Servers>) {
        let both = self.before.pem() + &self.after.pem();
        replace(&self.before.ca_file(), &both);
        sleep(READ_AGAIN).await;
        for (name, identity) in [
            ("pod", &self.pod),
            ("producer", &self.producer),
            ("receiver", &self.receiver),
            ("reseq", &self.reseq),
        ] {
            self.after.issue_into(name, identity);
        }
        self.of_redis.issue_into("link", &self.redis_server);
        self.of_redis.issue_into("reseq", &self.redis_client);
        let fresh = self.of_redis.issue("redis-again");
        let (certificate, key) = (fresh.certificate.to_str(), fresh.key.to_str());
        let files = ["tls-cert-file", certificate.unwrap(), "tls-key-file", key.unwrap()];
        let servers = redis.lock().await;
        for server in servers.nodes().iter().filter(|server| server.is_answering()) {
            // A server that is just dying keeps its certificate.
            let _ = server.ask::<()>(&[&["CONFIG", "SET"], &files[..]].concat()).await;
        }
        drop(servers);
        sleep(READ_AGAIN).await;
        replace(&self.before.ca_file(), &self.after.pem());
    }
}
