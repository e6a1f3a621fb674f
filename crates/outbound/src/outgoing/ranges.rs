//! Tells which addresses are not public, and finds IPv4 addresses inside IPv6 addresses.
//!
//! The source is IANA's registries of special-purpose addresses (RFC 6890 and its successors). In
//! IPv6, only global unicast addresses (`2000::/3`) can be public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 networks that are not public: address, length of the prefix, description.
const SPECIAL_V4: [([u8; 4], u32, &str); 16] = [
    ([0, 0, 0, 0], 8, "an address of this host"),
    ([10, 0, 0, 0], 8, "a private address"),
    ([100, 64, 0, 0], 10, "a shared address of a provider (CGNAT)"),
    ([127, 0, 0, 0], 8, "a loopback address"),
    ([168, 63, 129, 16], 32, "the address of a cloud's metadata"),
    ([169, 254, 0, 0], 16, "a link-local address"),
    ([172, 16, 0, 0], 12, "a private address"),
    ([192, 0, 0, 0], 24, "a reserved address"),
    ([192, 0, 2, 0], 24, "an address for documentation"),
    ([192, 88, 99, 0], 24, "a reserved address"),
    ([192, 168, 0, 0], 16, "a private address"),
    ([198, 18, 0, 0], 15, "an address for benchmarks"),
    ([198, 51, 100, 0], 24, "an address for documentation"),
    ([203, 0, 113, 0], 24, "an address for documentation"),
    ([224, 0, 0, 0], 4, "a multicast address"),
    ([240, 0, 0, 0], 4, "a reserved address"),
];

/// IPv6 networks that are not public. Checked before the rule about global unicast.
const SPECIAL_V6: [([u16; 8], u32, &str); 14] = [
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, "an address of this host"),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, "a loopback address"),
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, "a deprecated form of an IPv4 address"),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "a private address (local NAT64)"),
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "a reserved address"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, "an address of a tunnel (Teredo)"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "a reserved address"),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "an address for documentation"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "an address for documentation"),
    ([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, "a reserved address"),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "a private address"),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "a link-local address"),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "a private address"),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "a multicast address"),
];

/// NAT64 with its well-known prefix: `64:ff9b::/96` (RFC 6052). IPv6-only networks reach all of
/// IPv4 through it.
const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];
/// The first word of 6to4 (RFC 3056).
const SIX_TO_FOUR: u16 = 0x2002;
/// The third quarter of an ISATAP address (RFC 5214), without the bit that says whether it is unique.
const ISATAP: [u16; 2] = [0x0000, 0x5efe];

/// The kind of address, if it is not public. Ignores IPv4 addresses inside IPv6 addresses.
pub(super) fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            let within = |network: [u8; 4], length: u32| {
                (bits ^ Ipv4Addr::from(network).to_bits()) >> (32 - length) == 0
            };
            let found = SPECIAL_V4.iter().find(|(network, length, _)| within(*network, *length));
            found.map(|(_, _, what)| *what)
        }
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let within = |network: [u16; 8], length: u32| {
                (bits ^ Ipv6Addr::from(network).to_bits()) >> (128 - length) == 0
            };
            let found = SPECIAL_V6.iter().find(|(network, length, _)| within(*network, *length));
            let is_public =
                within([0x2000, 0, 0, 0, 0, 0, 0, 0], 3) || address.segments()[..6] == NAT64;
            found.map(|(_, _, what)| *what).or((!is_public).then_some("a reserved address"))
        }
    }
}

/// The IPv4 address that a gateway or tunnel extracts from this IPv6 address.
pub(super) fn inside(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(address) = address else { return None };
    let words = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(IpAddr::from([a, b, c, d]))
    };
    if words[..6] == NAT64 || (words[..6] == [0; 6] && words[6] != 0) {
        return v4(words[6], words[7]);
    }
    if words[0] == SIX_TO_FOUR {
        return v4(words[1], words[2]);
    }
    let is_isatap = [words[4] & !0x0200, words[5]] == ISATAP && words[..4] != [0; 4];
    is_isatap.then(|| v4(words[6], words[7])).flatten()
}
