//! A deployment with pods of both versions.

use std::{collections::BTreeMap, process::Stdio, sync::Arc};

use redis::aio::MultiplexedConnection;

use super::{
    SENTENCE, TOO_OLD,
    support::{
        checker::{Rule, keys},
        gate::Point,
        ledger::Ledger,
        pods::{Pod, Settings, refused_start, without_settings},
        producer::{Item, Producer},
        receiver::{Inbox, Receiver},
        redis::TestRedis,
        transformer::Transformer,
        wait::{eventually, within},
    },
};

const PARTITIONS: u16 = 4;
const SEED: u64 = 31;
const SLOWEST_MS: u64 = 10;
const BATCH: usize = 10;

pub const RULES: [Rule; 2] = [
    Rule { destination: "orders", by_key: false, is_transformed: true },
    Rule { destination: "accounts", by_key: true, is_transformed: true },
];

/// The version of a process.
#[derive(Debug, Clone, Copy)]
pub struct Version {
    pub is_next: bool,
}

pub const NOW: Version = Version { is_next: false };
pub const NEXT: Version = Version { is_next: true };

pub struct Deployment {
    pub inbox: Arc<Inbox>,
    pub ledger: Arc<Ledger>,
    redis: TestRedis,
    settings: Settings,
    transformer: Transformer,
    _receiver: Receiver,
}

impl Deployment {
    pub async fn new() -> Deployment {
        let redis = TestRedis::start().await;
        let inbox = Arc::new(Inbox::default());
        let transformer = Transformer::start(SEED, SLOWEST_MS).await;
        let receiver = Receiver::http(&inbox).await;
        let fields = |ordering: &str| {
            format!(
                "url = \"{}\"\nordering = \"{ordering}\"\n\
                 transform = {{ kind = \"http\", url = \"{}\" }}\n\
                 delivery = {{ timeout_ms = 60000, backoff_ms = 20 }}",
                receiver.url(),
                transformer.url(),
            )
        };
        let mut settings = Settings::new(redis.url())
            .destination("orders", &fields("destination"))
            .destination("accounts", &fields("key"));
        settings.partitions = PARTITIONS;
        settings.sender_lease_ms = 1500;
        let ledger = Arc::new(Ledger::default());
        Deployment { inbox, ledger, redis, settings, transformer, _receiver: receiver }
    }

    pub fn settings(&self, version: Version) -> Settings {
        let mut settings = self.settings.clone();
        if version.is_next {
            settings.environment.push(("RESEQ_NEXT_SCHEMA".to_owned(), "1".to_owned()));
        }
        settings
    }

    /// One pod of each role, the ingest pod first.
    pub async fn pods(&self, version: Version) -> Vec<Pod> {
        let mut pods = Vec::new();
        for role in ["ingest", "processor", "sender"] {
            let name = format!("{role}-{}", if version.is_next { "next" } else { "now" });
            pods.push(Pod::start(&name, role, &self.settings(version)).await);
        }
        pods
    }

    /// Sends messages to both destinations, alternating between these pods.
    pub async fn send(&self, name: &str, doors: &[&Pod], count: usize) {
        let name_of = |number: usize| format!("{name}-{number}");
        let mut producers: Vec<Producer> = doors
            .iter()
            .enumerate()
            .map(|(at, pod)| {
                let door = std::slice::from_ref(&pod.addresses);
                Producer::new(&name_of(at), door, &self.ledger)
            })
            .collect();
        for batch in 0..count / BATCH {
            let at = batch % producers.len();
            let item = |number: usize| {
                let key = Some(format!("key-{}", number % 5));
                Item::new(&["orders", "accounts"], key, name, number)
            };
            let items = (BATCH * batch..BATCH * (batch + 1)).map(item).collect();
            producers[at].send_batch(items).await;
        }
    }

    pub async fn arrives(&self, count: usize) {
        self.inbox.journal.reaches(count).await;
    }

    /// The formats in which messages are stored, on arrival and after their transform.
    pub async fn formats_of_some(&self, door: &Pod) -> Vec<String> {
        self.inbox.gate.hold(Point::Arrived);
        self.transformer.work.gate.hold(Point::Arrived);
        let name = format!("formats-{}", self.ledger.count());
        self.send(&name, &[door], 2 * BATCH).await;
        let mut formats = self.formats().await;
        self.transformer.work.gate.let_go();
        self.inbox.gate.holds(2).await;
        formats.extend(self.formats().await);
        self.inbox.gate.let_go();
        formats.sort();
        formats.dedup();
        formats
    }

    async fn formats(&self) -> Vec<String> {
        let mut connection = self.connection().await;
        let mut formats = Vec::new();
        for key in keys(&mut connection).await {
            if !key.ends_with(":messages") {
                continue;
            }
            let records: Vec<Vec<u8>> =
                redis::cmd("HVALS").arg(&key).query_async(&mut connection).await.unwrap();
            formats.extend(records.iter().map(|record| format_of(record)));
        }
        assert!(!formats.is_empty(), "no record is there");
        formats
    }

    async fn connection(&self) -> MultiplexedConnection {
        self.redis.connection().await
    }

    /// Runs `reseq migrate`. Returns its output, or its error.
    pub async fn migrate(&self, version: Version, arguments: &[&str]) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("reseq.toml");
        std::fs::write(&file, self.config()).unwrap();
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_reseq"));
        command.args(["migrate", "--config"]).arg(&file).args(arguments);
        without_settings(&mut command);
        if version.is_next {
            command.env("RESEQ_NEXT_SCHEMA", "1");
        }
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = within("reseq migrate ends", command.output()).await.unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let problem = String::from_utf8(output.stderr).unwrap();
        if output.status.success() { Ok(said) } else { Err(problem) }
    }

    /// Migrates as soon as no older pod seems to live, while the load continues.
    pub async fn migrates(&self, newer: &[Pod]) {
        let migrated = eventually("the migration is done", async || self.migrate(NEXT, &[]).await);
        let doors = [&newer[0]];
        let load = self.send("meanwhile", &doors, 100);
        let (told, ()) = tokio::join!(migrated, load);
        assert!(told.contains("all 4 partitions have schema 4"), "{told}");
    }

    fn config(&self) -> String {
        format!("[redis]\nurl = \"{}\"\npartitions = {PARTITIONS}\n", self.redis.url())
    }

    pub async fn refuses_to_start_an_older_pod(&self) {
        let (status, said) = refused_start(&self.config()).await;
        assert!(!status.success());
        assert!(said.contains(SENTENCE), "{said}");
    }

    /// Marks the deployment as written with a schema that no version reads any more. Checks that
    /// this version refuses the schema by name, and changes nothing.
    pub async fn refuses_a_schema_that_is_too_old(&self) {
        let mut connection = self.connection().await;
        let mut command = redis::cmd("HSET");
        command.arg("reseq:meta").arg("schema").arg("2").arg("partitions").arg(PARTITIONS);
        command.exec_async(&mut connection).await.unwrap();
        let digest = redis::cmd("DEBUG").arg("DIGEST").clone();
        let before: String = digest.query_async(&mut connection).await.unwrap();
        let (status, said) = refused_start(&self.config()).await;
        assert!(!status.success());
        assert!(said.contains(TOO_OLD), "{said}");
        let after: String = digest.query_async(&mut connection).await.unwrap();
        assert_eq!(before, after, "a refused start changes nothing");
    }

    /// The schema of each partition.
    pub async fn schemas(&self) -> [Option<u32>; PARTITIONS as usize] {
        let mut connection = self.connection().await;
        let mut all = Vec::new();
        for partition in 0..PARTITIONS {
            let mut command = redis::cmd("HGET");
            command.arg(format!("reseq:{{p{partition:02}}}:epoch")).arg("schema");
            all.push(command.query_async(&mut connection).await.unwrap());
        }
        all.try_into().unwrap()
    }

    /// Raises these partitions as a migration does.
    pub async fn raise(&self, partitions: &[u16]) {
        let mut connection = self.connection().await;
        for key in ["reseq:meta".to_owned()]
            .into_iter()
            .chain(partitions.iter().map(|partition| format!("reseq:{{p{partition:02}}}:epoch")))
        {
            let mut command = redis::cmd("HSET");
            command.arg(key).arg("schema").arg("4").exec_async(&mut connection).await.unwrap();
        }
    }

    /// A digest of each key of the partitions.
    pub async fn partitions(&self) -> BTreeMap<String, String> {
        let mut connection = self.connection().await;
        let all = keys(&mut connection).await.into_iter().filter(|key| key.contains(":{p"));
        let all: Vec<String> = all.collect();
        let mut command = redis::cmd("DEBUG");
        command.arg("DIGEST-VALUE").arg(&all);
        let digests: Vec<String> = command.query_async(&mut connection).await.unwrap();
        // The digest of a key that has just expired has only zeros.
        let is_there = |digest: &str| digest.chars().any(|digit| digit != '0');
        all.into_iter().zip(digests).filter(|(_, digest)| is_there(digest)).collect()
    }
}

/// The format of a record: the first character behind the prefix that scripts may add.
fn format_of(record: &[u8]) -> String {
    let text = String::from_utf8_lossy(record);
    let rest = match text.strip_prefix('P') {
        Some(rest) => rest.split_once(';').unwrap().1,
        None => &text,
    };
    rest[..1].to_owned()
}
