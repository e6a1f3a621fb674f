//! Fuzzes the check of addresses, and of hosts that count as this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use outbound::outgoing::Outgoing;

/// The URL of a receiver.
pub fn addresses(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    access::fuzzing::hosts(text);
    match Outgoing::new(Vec::new()).check_without_lookup(text) {
        Err(_) => {}
        Ok(Some((name, _))) => {
            // A host that is checked only after its look-up must be a name, because an address is
            // never looked up.
            assert!(name.trim_end_matches('.').parse::<IpAddr>().is_err(), "{name}");
        }
        Ok(None) => {
            let url = Url::parse(text).unwrap();
            let host = match url.host().unwrap() {
                Host::Domain(name) => Host::parse(name).unwrap(),
                host => host.to_owned(),
            };
            match host {
                Host::Domain(name) => panic!("{name} is not an address"),
                Host::Ipv4(ip) => assert!(is_public_v4(ip), "{ip}"),
                Host::Ipv6(ip) => assert!(is_public_v6(ip), "{ip}"),
            }
        }
    }
}

/// Uses the checks of the standard library for IPv4, and adds the ranges missing there.
fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, ..] = ip.octets();
    let is_special = ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_broadcast()
        || ip.is_documentation()
        || ip.is_unspecified();
    !is_special && a != 0 && a < 240 && !(a == 100 && (64..128).contains(&b))
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    if let Some(ip) = ip.to_ipv4_mapped() {
        return is_public_v4(ip);
    }
    let words = ip.segments();
    let [bytes @ .., a, b, c, d] = ip.octets();
    if bytes == [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0] {
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    if words[0] == 0x2002 {
        let [_, _, a, b, c, d, ..] = bytes;
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    words[0] & 0xe000 == 0x2000 && words[..2] != [0x2001, 0xdb8]
}
