//! Tests disguised forms of refused addresses, with the same parsing as in production.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::*;
use crate::{
    http_client::{Clients, RequestError},
    outgoing::policy::RefusedAddress,
};
use tls::Connector;

/// Hosts that Reseq must refuse, each with its kind of address.
const DISGUISES: [(&str, &str); 118] = [
    // This machine.
    ("127.0.0.1", "loopback"),
    ("127.0.0.2", "loopback"),
    ("127.255.255.254", "loopback"),
    ("127.1", "loopback"),
    ("127.0.1", "loopback"),
    ("127.0.0.1.", "loopback"),
    ("2130706433", "loopback"),
    ("017700000001", "loopback"),
    ("0x7f000001", "loopback"),
    ("0X7F000001", "loopback"),
    ("0177.0.0.1", "loopback"),
    ("0177.0.0.01", "loopback"),
    ("00177.1", "loopback"),
    ("0x7f.0.0.1", "loopback"),
    ("0x7f.1", "loopback"),
    ("0x7f.0x0.0x0.0x1", "loopback"),
    ("127.0x0.0.0x1", "loopback"),
    ("127.0.0.0x1", "loopback"),
    ("%31%32%37.0.0.1", "loopback"),
    ("127%2e0%2e0%2e1", "loopback"),
    ("127。0。0。1", "loopback"),
    ("127．0．0．1", "loopback"),
    ("127｡0｡0｡1", "loopback"),
    ("１２７.０.０.１", "loopback"),
    ("①②⑦.0.0.1", "loopback"),
    ("𝟏𝟐𝟕.0.0.1", "loopback"),
    ("12\u{ad}7.0.0.1", "loopback"),
    ("localhost", "loopback"),
    ("LOCALHOST", "loopback"),
    ("LocalHost.", "loopback"),
    ("foo.localhost", "loopback"),
    ("a.b.localhost.", "loopback"),
    ("ⓛocalhost", "loopback"),
    ("ｌｏｃａｌｈｏｓｔ", "loopback"),
    ("%6cocalhost", "loopback"),
    ("0", "this host"),
    ("0.0.0.0", "this host"),
    ("0x0", "this host"),
    ("00000", "this host"),
    ("0.1.2.3", "this host"),
    ("[::]", "this host"),
    ("[0:0:0:0:0:0:0:0]", "this host"),
    ("[::1]", "loopback"),
    ("[0:0:0:0:0:0:0:1]", "loopback"),
    ("[0000::0001]", "loopback"),
    ("[::0.0.0.1]", "loopback"),
    ("[::127.0.0.1]", "deprecated"),
    ("[::7f00:1]", "deprecated"),
    ("[::ffff:127.0.0.1]", "loopback"),
    ("[::ffff:7f00:1]", "loopback"),
    ("[::FFFF:7F00:0001]", "loopback"),
    ("[0:0:0:0:0:ffff:7f00:1]", "loopback"),
    ("[::ffff:0.0.0.0]", "this host"),
    ("[::ffff:0:127.0.0.1]", "reserved"),
    ("[2002:7f00:1::]", "loopback"),
    ("[2002:7f00:0001:0:0:0:0:1]", "loopback"),
    ("[64:ff9b::127.0.0.1]", "loopback"),
    ("[64:ff9b::7f00:1]", "loopback"),
    ("[2600:1::5efe:127.0.0.1]", "loopback"),
    ("[2600:1::200:5efe:7f00:1]", "loopback"),
    // The network around it.
    ("10.0.0.1", "private"),
    ("10.255.255.255", "private"),
    ("10.1", "private"),
    ("012.0.0.1", "private"),
    ("0xa.0.0.1", "private"),
    ("0x0a000001", "private"),
    ("167772161", "private"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("0254.16.0.1", "private"),
    ("2886729729", "private"),
    ("192.168.0.1", "private"),
    ("192.168.1", "private"),
    ("0300.0250.0.1", "private"),
    ("0xc0a80001", "private"),
    ("3232235521", "private"),
    ("[::ffff:10.0.0.1]", "private"),
    ("[::ffff:c0a8:1]", "private"),
    ("[::10.0.0.1]", "deprecated"),
    ("[2002:a00:1::1]", "private"),
    ("[2002:c0a8:101::]", "private"),
    ("[64:ff9b::10.0.0.1]", "private"),
    ("[64:ff9b::c0a8:1]", "private"),
    ("[64:ff9b:1::a00:1]", "private"),
    ("[fe80::5efe:10.0.0.1]", "link-local"),
    ("[fc00::1]", "private"),
    ("[fd12:3456:789a::1]", "private"),
    ("[fec0::1]", "private"),
    ("100.64.0.1", "CGNAT"),
    ("100.127.255.255", "CGNAT"),
    ("0144.64.0.1", "CGNAT"),
    ("[::ffff:100.64.0.1]", "CGNAT"),
    ("[64:ff9b::100.64.0.1]", "CGNAT"),
    // Metadata of clouds, and link-local.
    ("169.254.169.254", "link-local"),
    ("169.254.43518", "link-local"),
    ("2852039166", "link-local"),
    ("0xa9fea9fe", "link-local"),
    ("0xA9.0xFE.0xA9.0xFE", "link-local"),
    ("0251.0376.0251.0376", "link-local"),
    ("０xa9fea9fe", "link-local"),
    ("[::ffff:169.254.169.254]", "link-local"),
    ("[::ffff:a9fe:a9fe]", "link-local"),
    ("[2002:a9fe:a9fe::]", "link-local"),
    ("[64:ff9b::a9fe:a9fe]", "link-local"),
    ("[fd00:ec2::254]", "private"),
    ("[fe80::1]", "link-local"),
    ("[febf::1]", "link-local"),
    ("100.100.100.200", "CGNAT"),
    ("192.0.0.192", "reserved"),
    ("168.63.129.16", "metadata"),
    // Multicast and reserved.
    ("224.0.0.1", "multicast"),
    ("239.255.255.250", "multicast"),
    ("[ff02::1]", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "reserved"),
    ("4294967295", "reserved"),
    ("[2001:0:4136:e378:8000:63bf:3fff:fdd2]", "Teredo"),
    ("[2001:db8::1]", "documentation"),
];

fn erp() -> DestinationName {
    "erp".parse().unwrap()
}

fn clients_of(outgoing: Outgoing) -> Clients {
    Clients::new(outgoing, Connector::of_system().unwrap()).unwrap()
}

fn refusal(result: Result<(), OutgoingError>, of: &str) -> RefusedAddress {
    match result {
        Err(OutgoingError::Refused(refused)) => refused,
        other => panic!("{of}: {other:?}"),
    }
}

/// Sends a request to this URL. The error says that the address was refused.
async fn request(clients: &Clients, url: &str) -> Result<(), RefusedAddress> {
    let url = Url::parse(url).unwrap();
    let error = match clients.post(&erp(), &url, |request| request).await {
        Ok(_) => return Ok(()),
        Err(RequestError::Refused(refused)) => return Err(refused),
        Err(RequestError::Unresolved(error)) => panic!("{url}: {error:?}"),
        Err(RequestError::Failed(error)) => error,
    };
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
        if let Some(OutgoingError::Refused(refused)) = cause.downcast_ref() {
            return Err(*refused);
        }
    }
    panic!("{url}: {error:?}")
}

#[tokio::test]
async fn disguised_address_is_refused_at_definition_and_connection() {
    let outgoing = Outgoing::new(Vec::new());
    let clients = clients_of(outgoing.clone());
    for (host, kind) in DISGUISES {
        for scheme in ["http", "https", "tcp"] {
            let url = format!("{scheme}://{host}:9001/in");
            let refused = refusal(outgoing.check_url(&url).await, &url);
            assert!(refused.to_string().contains(kind), "{url}: {refused}");
            let refused = match scheme {
                "tcp" => refusal(outgoing.connect(&erp(), &url).await.map(drop), &url),
                _ => request(&clients, &url).await.expect_err(&url),
            };
            assert!(refused.to_string().contains(kind), "{url}: {refused}");
        }
    }
}

#[tokio::test]
async fn public_addresses_are_not_refused() {
    let outgoing = Outgoing::new(Vec::new());
    for host in [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.1",
        "169.253.255.255",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.255.255",
        "223.255.255.255",
        "[2606:4700:4700::1111]",
        "[2a00:1450:4001::200e]",
        "[::ffff:1.1.1.1]",
        "[64:ff9b::1.1.1.1]",
    ] {
        outgoing.check_url(&format!("http://{host}/")).await.unwrap();
    }
}

#[tokio::test]
async fn the_allow_list_opens_networks_and_ports_and_nothing_else() {
    let allow = ["127.0.0.0/8:4000-4999", "10.1.0.0/16", "[::1]:8080", "192.168.1.2:443"];
    let outgoing = Outgoing::new(allow.iter().map(|text| text.parse().unwrap()).collect());
    for (url, is_open) in [
        ("http://127.0.0.1:4000/", true),
        ("tcp://0177.0.0.1:4999", true),
        ("http://127.0.0.1:5000/", false),
        ("http://localhost:4000/", true),
        ("http://localhost:8080/", true),
        ("http://localhost:8081/", false),
        ("http://[::ffff:127.0.0.1]:4000/", true),
        ("http://10.1.2.3/", true),
        ("tcp://10.1.2.3:1", true),
        ("http://[64:ff9b::10.1.2.3]/", true),
        ("http://10.2.2.3/", false),
        ("http://[::1]:8080/", true),
        ("http://[::1]:8081/", false),
        ("https://192.168.1.2/", true),
        ("http://192.168.1.2/", false),
    ] {
        let checked = outgoing.check_url(url).await;
        assert_eq!(checked.is_ok(), is_open, "{url}: {checked:?}");
    }
}

#[tokio::test]
async fn no_allow_list_opens_reseq_itself_and_its_redis() {
    let everything = ["0.0.0.0/0", "::/0"].map(|text| text.parse().unwrap());
    let outgoing = Outgoing::new(everything.into());
    outgoing.note_listeners(vec![
        "127.0.0.1:8080".parse().unwrap(),
        "0.0.0.0:8081".parse().unwrap(),
        "[::]:8082".parse().unwrap(),
    ]);
    outgoing.note_redis(vec!["10.0.0.5:6379".parse().unwrap(), "127.0.0.1:7000".parse().unwrap()]);
    for (url, is_open) in [
        ("http://127.0.0.1:8080/", false),
        ("http://0x7f.1:8080/", false),
        ("http://0.0.0.0:8080/", false),
        ("http://[::ffff:127.0.0.1]:8080/", false),
        ("http://localhost:8081/", false),
        ("http://127.3.2.1:8081/", false),
        ("http://[::1]:8082/", false),
        ("http://127.0.0.1:8082/", false),
        ("tcp://10.0.0.5:6379", false),
        ("http://[2002:a00:5::]:6379/", false),
        ("tcp://[::1]:7000", false),
        ("tcp://localhost:7000", false),
        ("tcp://0.0.0.0:7000", false),
        ("tcp://[::]:7000", false),
        ("tcp://127.3.2.1:7000", false),
        ("tcp://[::ffff:127.0.0.1]:7000", false),
        ("tcp://10.0.0.6:6379", true),
        ("tcp://10.0.0.6:7000", true),
        ("http://127.0.0.1:8083/", true),
        ("http://1.1.1.1:8081/", true),
        ("tcp://10.0.0.5:6380", true),
    ] {
        let checked = outgoing.check_url(url).await;
        assert_eq!(checked.is_ok(), is_open, "{url}: {checked:?}");
    }
}

/// Gives each question the next answer of the list. After the last answer, repeats it.
struct Rebinding {
    answers: Mutex<Vec<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Rebinding {
    fn with(answers: &[&[&str]]) -> Arc<Rebinding> {
        let parsed = |ips: &&[&str]| ips.iter().map(|ip| ip.parse().unwrap()).collect();
        let answers = Mutex::new(answers.iter().map(parsed).collect());
        Arc::new(Rebinding { answers, asked: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl Lookup for Rebinding {
    async fn lookup(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let answers = self.answers.lock();
        let none = || io::Error::new(io::ErrorKind::NotFound, "no such name");
        answers.get(asked).or(answers.last()).cloned().ok_or_else(none)
    }
}

#[tokio::test]
async fn name_leading_elsewhere_after_definition_is_not_connected() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for scheme in ["http", "tcp"] {
        let url = format!("{scheme}://rebinding.example:{port}/");
        let rebinding = Rebinding::with(&[&["1.1.1.1"], &["127.0.0.1", "::1", "169.254.169.254"]]);
        let outgoing = Outgoing::new(Vec::new()).with_lookup(rebinding);
        outgoing.check_url(&url).await.unwrap();
        let refused = match scheme {
            "tcp" => refusal(outgoing.connect(&erp(), &url).await.map(drop), &url),
            _ => request(&clients_of(outgoing), &url).await.unwrap_err(),
        };
        assert_eq!(refused.address, SocketAddr::from(([127, 0, 0, 1], port)));
    }
    // No connection has arrived.
    let accepted = std::future::poll_fn(|context| {
        std::task::Poll::Ready(listener.poll_accept(context).is_ready())
    });
    assert!(!accepted.await);
}

#[tokio::test]
async fn only_allowed_addresses_of_a_name_are_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let allow = vec![format!("127.0.0.1:{port}").parse().unwrap()];
    for scheme in ["http", "tcp"] {
        // Without the filter, 127.0.0.2 would answer first, with "connection refused".
        let rebinding = Rebinding::with(&[&["127.0.0.2", "127.0.0.1"]]);
        let outgoing = Outgoing::new(allow.clone()).with_lookup(rebinding);
        let url = format!("{scheme}://mixed.example:{port}/");
        outgoing.check_url(&url).await.unwrap();
        let clients = clients_of(outgoing.clone());
        let connecting = async {
            match scheme {
                "tcp" => outgoing.connect(&erp(), &url).await.is_ok(),
                _ => {
                    let url = Url::parse(&url).unwrap();
                    clients.post(&erp(), &url, |request| request).await.is_ok()
                }
            }
        };
        let (accepted, _) = tokio::join!(
            async { listener.accept().await.map(|(stream, _)| stream.local_addr().unwrap()) },
            connecting
        );
        assert_eq!(accepted.unwrap().port(), port);
    }
}

#[tokio::test]
async fn a_name_that_is_unknown_now_may_be_defined() {
    let outgoing = Outgoing::new(Vec::new()).with_lookup(Rebinding::with(&[]));
    outgoing.check_url("http://unknown.example/").await.unwrap();
    let connected = outgoing.connect(&erp(), "tcp://unknown.example:1").await;
    assert!(matches!(connected, Err(OutgoingError::Io(_))));
}

#[tokio::test]
async fn a_resolver_that_does_not_know_the_port_connects_to_nothing() {
    use reqwest::dns::Resolve;

    let everything = vec!["0.0.0.0/0".parse().unwrap()];
    let outgoing = Outgoing::new(everything).with_lookup(Rebinding::with(&[&["1.1.1.1"]]));
    let resolver = Resolver(outgoing);
    let name = || "one.example".parse().unwrap();
    assert!(resolver.resolve(name()).await.is_err());
    let resolved = to_port(&erp(), 443, async { resolver.resolve(name()).await }).await;
    assert_eq!(resolved.unwrap().count(), 1);
}

const HOUR: Duration = Duration::from_secs(3600);

/// A look-up that waits for a permit. Counts the current questions and all questions.
struct Silent {
    now: AtomicUsize,
    asked: AtomicUsize,
    answers: tokio::sync::Semaphore,
}

#[async_trait]
impl Lookup for Silent {
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if name != "answered.example" {
            self.now.fetch_add(1, Ordering::Relaxed);
            self.answers.acquire().await.unwrap().forget();
            self.now.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(vec![Ipv4Addr::new(1, 1, 1, 1).into()])
    }
}

fn silent() -> (Arc<Silent>, Outgoing) {
    let (now, asked) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let silent = Arc::new(Silent { now, asked, answers: tokio::sync::Semaphore::new(0) });
    let mut outgoing = Outgoing::new(Vec::new()).with_lookup(silent.clone());
    outgoing.lookups.first_max = HOUR;
    (silent, outgoing)
}

/// Starts `count` look-ups at once, and waits until `now` of them run.
async fn asks(outgoing: &Outgoing, name: &str, count: usize, now: usize, silent: &Silent) {
    for number in 0..count {
        let (outgoing, who) = (outgoing.clone(), Some(name.parse().unwrap()));
        let name = format!("silent-{number}.{name}.example");
        tokio::spawn(async move { outgoing.permitted(&who, &name, 1).await });
    }
    while silent.now.load(Ordering::Relaxed) < now {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn silent_dns_takes_the_share_of_its_destination_alone() {
    let (silent, outgoing) = silent();
    asks(&outgoing, "evil", 100, 16, &silent).await;
    let other = Some("other".parse().unwrap());
    outgoing.permitted(&other, "answered.example", 1).await.unwrap();
    // Each destination gets half of the places left by the others, and at most 16.
    let mut taken = 16;
    for (name, more) in [("evil-2", 16), ("evil-3", 16), ("evil-4", 8)] {
        taken += more;
        asks(&outgoing, name, 100, taken, &silent).await;
    }
    outgoing.permitted(&other, "answered.example", 1).await.unwrap();
    assert_eq!(silent.now.load(Ordering::Relaxed), 56, "nobody had an answer meanwhile");
    silent.answers.add_permits(1000);
    while outgoing.lookups.share.taken() + outgoing.lookups.share.waiting().len() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(silent.asked.load(Ordering::Relaxed), 402);
}

#[tokio::test]
async fn new_name_does_not_wait_behind_silent_ones() {
    let (silent, _) = silent();
    let mut outgoing = Outgoing::new(Vec::new()).with_lookups(silent.clone(), 5);
    (outgoing.lookups.first_max, outgoing.lookups.longest) = (Duration::from_millis(1), HOUR);
    for number in 0..20 {
        let name = format!("silent-{number}.example");
        let who = Some(format!("evil-{number}").parse().unwrap());
        for _ in 0..15 {
            let (outgoing, who, name) = (outgoing.clone(), who.clone(), name.clone());
            tokio::spawn(async move { while outgoing.permitted(&who, &name, 1).await.is_err() {} });
        }
    }
    // 20 first look-ups, and 4 more for silent names: as many as may run at once.
    while silent.asked.load(Ordering::Relaxed) < 24 || outgoing.lookups.share.taken() != 4 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let other = Some("other".parse().unwrap());
    outgoing.permitted(&other, "answered.example", 1).await.unwrap();
    assert_eq!(silent.asked.load(Ordering::Relaxed), 25, "no silent one ended meanwhile");
}

#[tokio::test]
async fn name_that_many_ask_for_is_looked_up_once() {
    let (silent, outgoing) = silent();
    let who = Some(erp());
    let ask = || Box::pin(outgoing.permitted(&who, "one.example", 1));
    let mut asking: Vec<_> = (0..50).map(|_| ask()).collect();
    for one in &mut asking {
        assert!(futures::FutureExt::now_or_never(one.as_mut()).is_none());
    }
    // The caller that started the look-up leaves. The others still get the answer.
    drop(asking.remove(0));
    silent.answers.add_permits(50);
    for one in asking {
        assert_eq!(one.await.unwrap().len(), 1);
    }
    assert_eq!(silent.asked.load(Ordering::Relaxed), 1);
    assert!(outgoing.lookups.is_known("one.example"));
    assert_eq!(outgoing.lookups.share.taken(), 0);
}
