//! Postgres as a source, and what the tests ask of it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::Value;
use tokio::task::JoinHandle;

pub use crate::reseq::Reseq;
use crate::{
    connector::Connector,
    postgres::{Psql, TestPostgres},
};

impl Reseq {
    /// A connector with these lines of its source, and with these of the section of Postgres.
    pub fn connector(&self, postgres: &TestPostgres, source: &str, section: &str) -> Connector {
        let TestPostgres { port, login, .. } = postgres;
        let section = format!(
            "[[source]]\nname = \"orders\"\n{source}\n[source.postgres]\nhost = \"127.0.0.1\"\nport = {port}\n\
             database = \"postgres\"\n{login}\nslot = \"reseq\"\npublication = \"outbox\"\n\
             table = \"public.outbox\"\n{section}"
        );
        Connector::new(&self.access(), &section)
    }
}

/// Writers whose transactions commit in another order than their ids have.
pub struct Load {
    ends: Arc<AtomicBool>,
    writers: Vec<JoinHandle<()>>,
}

impl Load {
    pub fn start(psql: &Psql, writers: usize) -> Load {
        let ends = Arc::new(AtomicBool::new(false));
        let writer = |number: usize| {
            let (ends, psql) = (ends.clone(), psql.clone());
            tokio::task::spawn_blocking(move || {
                let mut turn = number;
                while !ends.load(Ordering::Relaxed) {
                    turn += 1;
                    // An error ends a script early: nobody knows what it has committed, except Postgres.
                    let _ = psql.run(&script(turn));
                }
            })
        };
        Load { writers: (0..writers).map(writer).collect(), ends }
    }

    /// Ends the writers, and waits for them.
    pub async fn end(mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for writer in self.writers.drain(..) {
            writer.await.unwrap();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// Twenty transactions of two rows, of which one is open for a while, and some are rolled back.
fn script(turn: usize) -> String {
    let transaction = |number: usize| {
        let insert = |key: usize| {
            format!("INSERT INTO outbox (key, body) VALUES ('k{}', '{{\"w\": {turn}}}');", key % 7)
        };
        let end = if number % 9 == 8 { "ROLLBACK" } else { "COMMIT" };
        format!(
            "BEGIN; {} SELECT pg_sleep(0.004 * random()); {} {end};",
            insert(number),
            insert(number + turn)
        )
    };
    (0..20).map(transaction).collect()
}

/// The ids of each key, in order.
pub fn by_key(rows: impl IntoIterator<Item = (String, u64)>) -> BTreeMap<String, Vec<u64>> {
    let mut keys = BTreeMap::<String, Vec<u64>>::new();
    for (key, id) in rows {
        keys.entry(key).or_default().push(id);
    }
    keys
}

/// Checks that Reseq has all that Postgres has committed, once, and each key in the order of commits.
pub async fn has_all(reseq: &Reseq, postgres: &TestPostgres) {
    let committed = postgres.committed();
    assert!(!committed.is_empty());
    // In a long storm, the writers are far ahead.
    reseq.gets("erp", committed.len() as u64).await;
    let taken = reseq.take("erp", committed.len()).await;
    let row = |message: &Value| {
        (
            message["key"].as_str().unwrap().to_owned(),
            message["id"].as_str().unwrap().parse().unwrap(),
        )
    };
    assert_eq!(by_key(taken.iter().map(row)), by_key(committed));
}
