//! Networks and ports to which an operator allows outgoing connections (`outgoing.allow`).

use std::{fmt, net::IpAddr, ops::RangeInclusive, str::FromStr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// A network, and the ports in it: `10.1.0.0/16`, `127.0.0.0/8:4000-4999`, `[::1]:8080`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AllowedNetwork {
    network: IpNet,
    ports: RangeInclusive<u16>,
    /// The text as it was written.
    text: String,
}

const SHAPES: &str = "write a network such as \"10.1.0.0/16\", \"10.1.2.3:443\", \"127.0.0.0/8:4000-4999\", \"fd00::/8\" \
     or \"[::1]:8080\"";

impl AllowedNetwork {
    /// True if the network contains this address and port.
    pub fn contains(&self, address: IpAddr, port: u16) -> bool {
        self.network.contains(&address) && self.ports.contains(&port)
    }
}

impl FromStr for AllowedNetwork {
    type Err = String;

    fn from_str(text: &str) -> Result<AllowedNetwork, String> {
        let (network, ports) = if let Some(rest) = text.strip_prefix('[') {
            let (network, rest) = rest.split_once(']').ok_or(SHAPES)?;
            match rest {
                "" => (network_of(network)?, None),
                rest => (network_of(network)?, Some(rest.strip_prefix(':').ok_or(SHAPES)?)),
            }
        } else if let Ok(network) = network_of(text) {
            (network, None)
        } else {
            // In an IPv6 network, the part after the last colon belongs to the address, so ports need brackets.
            let (network, ports) = text.rsplit_once(':').ok_or(SHAPES)?;
            if network.contains(':') {
                return Err(SHAPES.to_owned());
            }
            (network_of(network)?, Some(ports))
        };
        if network != network.trunc() {
            return Err(format!("{text:?} has bits beyond its prefix; write {}", network.trunc()));
        }
        if let IpNet::V6(v6) = network
            && v6.addr().to_ipv4_mapped().is_some()
        {
            return Err(format!("{text:?} is IPv4 written as IPv6; write it as IPv4"));
        }
        let ports = ports.map_or(Ok(0..=u16::MAX), ports_of)?;
        Ok(AllowedNetwork { network, ports, text: text.to_owned() })
    }
}

fn network_of(text: &str) -> Result<IpNet, String> {
    let whole = text.parse::<IpAddr>().map(IpNet::from);
    whole.or_else(|_| text.parse::<IpNet>()).map_err(|_| SHAPES.to_owned())
}

fn ports_of(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| {
        let port = text.parse::<u16>().ok().filter(|port| *port > 0);
        port.ok_or_else(|| format!("{text:?} is not a port from 1 to 65535; {SHAPES}"))
    };
    let (first, last) = (port(first)?, port(last)?);
    if first > last {
        return Err(format!("the ports {first}-{last} end before they begin"));
    }
    Ok(first..=last)
}

impl TryFrom<String> for AllowedNetwork {
    type Error = String;

    fn try_from(text: String) -> Result<AllowedNetwork, String> {
        text.parse()
    }
}

impl From<AllowedNetwork> for String {
    fn from(allowed: AllowedNetwork) -> String {
        allowed.text
    }
}

impl fmt::Display for AllowedNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_and_its_ports_are_read() {
        for (text, inside, outside) in [
            ("10.1.0.0/16", ("10.1.255.1", 1), ("10.2.0.0", 1)),
            ("10.1.2.3", ("10.1.2.3", 65535), ("10.1.2.4", 1)),
            ("10.1.2.3:443", ("10.1.2.3", 443), ("10.1.2.3", 444)),
            ("127.0.0.0/8:4000-4999", ("127.9.9.9", 4999), ("127.0.0.1", 5000)),
            ("::1", ("::1", 1), ("::2", 1)),
            ("fd00::/8", ("fd12::1", 1), ("fc00::1", 1)),
            ("[::1]", ("::1", 1), ("127.0.0.1", 1)),
            ("[::1]:8080", ("::1", 8080), ("::1", 8081)),
            ("[fd00::/8]:443-444", ("fd00::1", 444), ("fd00::1", 445)),
        ] {
            let allowed: AllowedNetwork = text.parse().unwrap();
            let holds = |(ip, port): (&str, u16)| allowed.contains(ip.parse().unwrap(), port);
            assert!(holds(inside) && !holds(outside), "{text}");
            assert_eq!(allowed.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "*",
            "localhost",
            "erp.example:80",
            "10.1.2.3/16",
            "10.0.0.0/33",
            "10.0.0.0/8:0",
            "10.0.0.0/8:",
            "10.0.0.0/8:80-",
            "10.0.0.0/8:90-80",
            "10.0.0.0/8:65536",
            "010.0.0.1",
            "[::1",
            "[::1]80",
            "fd00::/8:443",
            "::ffff:10.0.0.0/104",
        ] {
            let error = text.parse::<AllowedNetwork>().unwrap_err();
            assert!(!error.is_empty(), "{text}");
        }
    }
}
