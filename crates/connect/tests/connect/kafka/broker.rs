//! A real Kafka for tests, and what it says.

use std::{
    collections::HashMap,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::Duration,
};

use krafka::{
    Kafka as Client, Record,
    admin::{
        CreatePartitionsOptions, CreateTopicsOptions, DeleteRecordsOptions, DeleteTopicsOptions,
        NewTopic,
    },
    consumer::{IsolationLevel, TopicPartition},
    producer::Producer,
};
use reseq_testing::support::{
    certificates::{Authority, Identity},
    ports::free_port,
    wait::eventually,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::{connector::Connector, reseq::Reseq};

/// A server on a port of the loopback, which ends with this process.
pub struct Kafka {
    pub port: u16,
    /// Here it wants TLS, and a password.
    secure: u16,
    authority: Authority,
    dir: TempDir,
    /// Holds the server: a shell that ends it when its standard input ends.
    child: Mutex<Child>,
}

/// The server of all tests that leave it alone. Each has topics of its own.
pub async fn kafka() -> &'static Kafka {
    static KAFKA: OnceCell<Kafka> = OnceCell::const_new();
    KAFKA.get_or_init(Kafka::start).await
}

/// The folder of its jars.
fn jars() -> PathBuf {
    let folder = std::env::var_os("RESEQ_TEST_KAFKA");
    folder.expect("RESEQ_TEST_KAFKA names the folder of Kafka's jars (make test-connect)").into()
}

/// A Java program of Kafka.
fn java(class: &str) -> Command {
    let mut command = Command::new("java");
    command.args(["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
    command.arg(jars().join("*")).arg(class);
    command
}

impl Kafka {
    pub async fn start() -> Kafka {
        let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new("Kafka"));
        let [port, secure, controller] = [(); 3].map(|()| free_port());
        let Identity { certificate, key } = authority.issue("kafka");
        let both = [key, certificate].map(|path| std::fs::read_to_string(path).unwrap());
        let identity = dir.path().join("identity.pem");
        std::fs::write(&identity, both.concat()).unwrap();
        let data = dir.path().join("data");
        let settings = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},SASL_SSL://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_SSL://127.0.0.1:{secure}\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT\n\
             sasl.enabled.mechanisms=SCRAM-SHA-512\nssl.keystore.type=PEM\nssl.keystore.location={}\n\
             listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
             org.apache.kafka.common.security.scram.ScramLoginModule required;\ncontroller.listener.names=CONTROLLER\n\
             offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             transaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n\
             group.min.session.timeout.ms=1000\nauto.create.topics.enable=false\n\
             log.cleaner.backoff.ms=200\nlog.cleaner.dedupe.buffer.size=16777216\nlog.dirs={}\n",
            identity.display(),
            data.display()
        );
        std::fs::write(dir.path().join("server.properties"), settings).unwrap();
        let mut format = java("kafka.tools.StorageTool");
        format.args(["format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "--add-scram"]);
        format.args(["SCRAM-SHA-512=[name=reseq,password=secret]", "-c"]);
        let made = format.arg(dir.path().join("server.properties")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let child = Mutex::new(Command::new("true").spawn().unwrap());
        let kafka = Kafka { port, secure, authority, dir, child };
        kafka.restart().await;
        kafka
    }

    /// Starts it again, and waits until it answers.
    pub async fn restart(&self) {
        let path = self.dir.path().join("log");
        let log = std::fs::File::options().create(true).append(true).open(path).unwrap();
        let server = java("kafka.Kafka");
        let mut shell = Command::new("sh");
        shell.args(["-c", "\"$@\" < /dev/null & cat; kill -9 $!; wait", "sh", "java"]);
        shell.args(server.get_args()).arg(self.dir.path().join("server.properties"));
        shell.stdin(Stdio::piped()).stdout(log.try_clone().unwrap()).stderr(log);
        *self.child.lock().unwrap() = shell.spawn().unwrap();
        eventually("Kafka answers", async || self.client().await.map(drop)).await;
    }

    /// Kills it.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    /// Stops the server, or lets it go on.
    pub fn signal(&self, signal: Signal) {
        let shell = self.child.lock().unwrap().id();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        let of = |id: &str| std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap();
        let text = children.unwrap();
        let server = text.split_whitespace().find(|id| of(id).starts_with("java")).unwrap();
        kill_process(Pid::from_raw(server.parse().unwrap()).unwrap(), signal).unwrap();
    }

    async fn client(&self) -> Result<Client, String> {
        let builder = Client::builder(format!("127.0.0.1:{}", self.port));
        let builder = builder.request_timeout(Duration::from_secs(20));
        builder.connect().await.map_err(|error| error.to_string())
    }

    /// A client, when it answers.
    pub async fn connect(&self) -> Client {
        eventually("Kafka answers", async || self.client().await).await
    }

    pub async fn create(&self, topic: &str, partitions: i32, configs: &[(&str, &str)]) {
        let mut new = NewTopic::new(topic, partitions, 1).unwrap();
        new.configs = configs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        eventually("the topic is created", async || {
            let admin = self.client().await?.admin();
            let made = admin.create_topics([new.clone()], CreateTopicsOptions::default()).await;
            match made.map_err(|error| error.to_string())?.remove(topic) {
                Some(Err(error)) => Err(error.to_string()),
                _ => Ok(()),
            }
        })
        .await;
        eventually("the topic has leaders", async || {
            let producer = self.client().await?.producer().build().await;
            let producer = producer.map_err(|error| error.to_string())?;
            let found = producer.partitions_for(topic).await.map_err(|error| error.to_string())?;
            let is_led =
                found.len() == partitions as usize && found.iter().all(|one| one.leader >= 0);
            if is_led { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    }

    pub async fn delete(&self, topic: &str) {
        let admin = self.connect().await.admin();
        let deleted = admin.delete_topics([topic], DeleteTopicsOptions::default()).await.unwrap();
        deleted.into_values().for_each(|result| result.unwrap());
    }

    /// Gives a topic this many partitions.
    pub async fn widen(&self, topic: &str, partitions: i32) {
        let admin = self.connect().await.admin();
        let options = CreatePartitionsOptions::default();
        let widened = admin.create_partitions([(topic, partitions)], options).await.unwrap();
        widened.into_values().for_each(|result| result.unwrap());
    }

    /// Deletes what a partition has before this offset, as retention does.
    pub async fn delete_before(&self, topic: &str, partition: i32, offset: i64) {
        let admin = self.connect().await.admin();
        let before = HashMap::from([(TopicPartition::new(topic, partition), offset)]);
        let deleted = admin.delete_records(before, DeleteRecordsOptions::default()).await.unwrap();
        deleted.into_values().for_each(|result| assert!(result.is_ok()));
    }

    pub async fn producer(&self) -> Producer {
        self.connect().await.producer().build().await.unwrap()
    }

    /// Writes a record for each of these keys, with its number as the body, one after the other.
    pub async fn write(&self, topic: &str, records: impl IntoIterator<Item = (String, u64)>) {
        let producer = self.producer().await;
        let mut handles = Vec::new();
        for (key, number) in records {
            let record = Record::new(topic, number.to_string()).key(key);
            handles.push(producer.enqueue(record).await.unwrap());
        }
        for handle in handles {
            let _ = handle.await.unwrap();
        }
    }

    /// How many records the only partition of a topic has, and the offset after its last.
    pub async fn count(&self, topic: &str) -> (usize, i64) {
        let client = self.connect().await;
        let builder =
            client.consumer_without_group().isolation_level(IsolationLevel::ReadCommitted);
        let consumer = builder.build().await.unwrap();
        let (first, end) = consumer.fetch_watermarks(topic, 0).await.unwrap();
        consumer.assign(topic, vec![0]).await.unwrap();
        consumer.seek(topic, 0, first).await.unwrap();
        let mut count = 0;
        while consumer.position(topic, 0).await.unwrap() < end {
            count += consumer.poll(Duration::from_secs(1)).await.unwrap().len();
        }
        (count, end)
    }

    /// How many offsets the partitions of a topic have.
    pub async fn end_of(&self, topic: &str) -> u64 {
        let consumer = self.connect().await.consumer_without_group().build().await.unwrap();
        let found = consumer.fetch_metadata(Some(topic)).await.unwrap();
        let mut count = 0;
        for partition in found.topics[0].partitions.keys() {
            let (_, end) = consumer.fetch_watermarks(topic, *partition).await.unwrap();
            count += u64::try_from(end).unwrap();
        }
        count
    }

    /// Waits until the group of a topic has committed this offset of its first partition.
    pub async fn has_committed(&self, topic: &str, offset: i64) {
        let client = self.connect().await;
        let consumer = client.consumer(topic).build().await.unwrap();
        eventually("the offset is committed", async || {
            let found =
                consumer.committed(&[(topic, 0)]).await.map_err(|error| error.to_string())?;
            match found.into_values().next() {
                Some(found) if found.offset == offset => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// The keys and bodies that Kafka's own consumer reads. Before them comes this: `headers`, or the `partition`.
    pub async fn reads(&self, topic: &str, count: usize, before: Option<&str>) -> Vec<String> {
        let mut command = java("org.apache.kafka.tools.consumer.ConsoleConsumer");
        command.args(["--bootstrap-server", &format!("127.0.0.1:{}", self.port), "--topic", topic]);
        command.args(["--from-beginning", "--timeout-ms", "20000", "--isolation-level"]);
        command.args(["read_committed", "--property", "print.key=true", "--property"]);
        command.args(["key.separator=|", "--property", "headers.separator=;"]);
        command.args(["--max-messages", &count.to_string()]);
        if let Some(before) = before {
            command.args(["--property", &format!("print.{before}=true")]);
        }
        let ran = tokio::task::spawn_blocking(move || command.stderr(Stdio::null()).output());
        let text = String::from_utf8(ran.await.unwrap().unwrap().stdout).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), count, "{topic}: what Kafka's consumer reads");
        lines
    }

    /// A connector whose one source is this topic. `more`: lines of the section of Kafka.
    pub fn source(&self, reseq: &Reseq, topic: &str, source: &str, more: &str) -> Connector {
        let section = format!(
            "{}[[source]]\nname = \"orders\"\ndestinations = [\"erp\"]\n{source}\n[source.kafka]\n\
             topic = \"{topic}\"\ngroup = \"{topic}\"\nsession_timeout_ms = 3000\n{more}\n",
            self.section()
        );
        Connector::new(&reseq.access(), &section)
    }

    /// A connector that writes a destination into this topic.
    pub fn sink(&self, reseq: &Reseq, topic: &str) -> Connector {
        let section = format!(
            "{}[[sink]]\nname = \"out\"\ndestination = \"erp\"\nkafka = {{ topic = \"{topic}\" }}\n",
            self.section()
        );
        Connector::new(&reseq.access(), &section)
    }

    /// The section of a connector that logs in over TLS, and the one that it replaces.
    pub fn secure(&self) -> (String, String) {
        let password = self.dir.path().join("password");
        std::fs::write(&password, "secret\n").unwrap();
        let section = format!(
            "[kafka]\nbrokers = [\"127.0.0.1:{}\"]\nusername = \"reseq\"\npassword_file = {password:?}\nca_file = {:?}\n",
            self.secure,
            self.authority.ca_file()
        );
        (self.section(), section)
    }

    fn section(&self) -> String {
        format!("[kafka]\nbrokers = [\"127.0.0.1:{}\"]\ntls = false\n", self.port)
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The key and the number of a line of Kafka's consumer.
pub fn pair(line: &str) -> (String, u64) {
    let (key, number) = line.rsplit_once('|').unwrap();
    (key.to_owned(), number.parse().unwrap_or_else(|_| panic!("{line}")))
}
