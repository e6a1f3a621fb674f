//! A real Postgres for tests, and what it says in SQL.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::Arc,
};

use reseq_testing::support::{
    certificates::{Authority, Identity},
    ports::free_port,
    wait::eventually,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The table of all tests, and its publication.
const OUTBOX: &str = "CREATE TABLE outbox (id bigserial PRIMARY KEY, key text, body jsonb NOT NULL, headers jsonb, \
     destination text); CREATE PUBLICATION outbox FOR TABLE outbox WITH (publish = 'insert, delete')";

/// A private server on a port of the loopback, killed on drop.
pub struct TestPostgres {
    pub port: u16,
    /// How a connector logs in: lines of its configuration.
    pub login: String,
    dir: TempDir,
    child: Child,
}

/// A program of Postgres.
fn program(name: &str) -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = folders
        .map(|folder| folder.path().join("bin").join(name))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found.pop().unwrap_or_else(|| name.into())
}

/// A command of Postgres, which refuses to run as root.
fn command(name: &str) -> Command {
    if !rustix::process::getuid().is_root() {
        return Command::new(program(name));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(program(name));
    command
}

impl TestPostgres {
    /// Starts a server that has the table and the publication `outbox`.
    pub async fn start() -> TestPostgres {
        let dir = tempfile::tempdir().unwrap();
        if rustix::process::getuid().is_root() {
            let owned = Command::new("chown").arg("nobody").arg(dir.path()).status().unwrap();
            assert!(owned.success());
        }
        let mut init = command("initdb");
        init.arg("-D").arg(dir.path().join("db"));
        init.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]);
        let made = init.output().expect("Postgres is installed (make setup-tests)");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let (port, child) = (free_port(), Command::new("true").spawn().unwrap());
        let login = "user = \"postgres\"\ntls = false".to_owned();
        let mut postgres = TestPostgres { port, login, dir, child };
        postgres.child.wait().unwrap();
        postgres.restart().await;
        postgres.sql(OUTBOX);
        postgres
    }

    /// From now on connectors log in over TLS, with a password, as a user that may only replicate.
    pub fn encrypt(&mut self, authority: &Authority) {
        let (Identity { certificate, key }, db) =
            (authority.issue("postgres"), self.dir.path().join("db"));
        for (from, name) in [(certificate, "server.crt"), (key, "server.key")] {
            let to = db.join(name);
            std::fs::copy(from, &to).unwrap();
            std::fs::set_permissions(&to, Permissions::from_mode(0o600)).unwrap();
            if rustix::process::getuid().is_root() {
                assert!(Command::new("chown").arg("nobody").arg(&to).status().unwrap().success());
            }
        }
        let rules =
            "hostssl all reseq 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n";
        std::fs::write(db.join("pg_hba.conf"), rules).unwrap();
        self.sql("CREATE ROLE reseq LOGIN REPLICATION PASSWORD 'it''s'");
        self.sql("ALTER SYSTEM SET ssl = on");
        self.sql("SELECT pg_reload_conf()");
        let (ca, password) = (authority.ca_file(), self.dir.path().join("password"));
        std::fs::write(&password, "it's\n").unwrap();
        self.login = format!("user = \"reseq\"\npassword_file = {password:?}\nca_file = {ca:?}");
    }

    /// Starts it again, and waits until it answers.
    pub async fn restart(&mut self) {
        let log = std::fs::File::options().create(true).append(true).open(self.log()).unwrap();
        let mut server = command("postgres");
        server.arg("-D").arg(self.dir.path().join("db")).args(["-p", &self.port.to_string()]);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "wal_level=logical",
            "fsync=off",
            "max_wal_senders=10",
            "max_replication_slots=10",
        ] {
            server.args(["-c", setting]);
        }
        self.child = server
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        eventually("Postgres answers", async || {
            let asked = self.psql().run("SELECT 1");
            match asked.status.success() {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&asked.stderr).into_owned()),
            }
        })
        .await;
    }

    /// Makes it a standby that becomes the primary, as a failover does. Its data of before stay in a copy.
    pub async fn fail_over(&mut self) {
        self.kill();
        let (db, old) = (self.dir.path().join("db"), self.dir.path().join("old"));
        assert!(Command::new("cp").arg("-a").args([&db, &old]).status().unwrap().success());
        std::fs::write(db.join("standby.signal"), "").unwrap();
        self.restart().await;
        assert_eq!(self.sql("SELECT pg_promote()"), ["t"]);
    }

    /// Becomes the former primary, as it was before [`TestPostgres::fail_over`].
    pub async fn fall_back(&mut self) {
        self.kill();
        let (db, old) = (self.dir.path().join("db"), self.dir.path().join("old"));
        std::fs::rename(&db, self.dir.path().join("new")).unwrap();
        std::fs::rename(&old, &db).unwrap();
        self.restart().await;
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// Ends all its processes at once, as a crash does.
    pub fn kill(&mut self) {
        let id = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(id, Signal::QUIT).unwrap();
        self.child.wait().unwrap();
    }

    /// Stops it as an operator does, and waits until it has ended.
    pub async fn stops(&mut self) {
        let id = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(id, Signal::INT).unwrap();
        let child = &mut self.child;
        eventually("Postgres stops", async || match child.try_wait().unwrap() {
            Some(_) => Ok(()),
            None => Err("it runs".to_owned()),
        })
        .await;
    }

    /// Drops the slot, once Postgres has noticed that nobody reads it any more.
    pub async fn drops_slot(&self) {
        eventually("the slot is dropped", async || {
            let dropped = self.psql().run("SELECT pg_drop_replication_slot('reseq')");
            match dropped.status.success() {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&dropped.stderr).into_owned()),
            }
        })
        .await;
    }

    /// A client, which tasks may share.
    pub fn psql(&self) -> Psql {
        Psql { port: self.port, program: Arc::from(program("psql").as_path()) }
    }

    /// The rows of statements, which must succeed.
    pub fn sql(&self, sql: &str) -> Vec<String> {
        self.psql().rows(sql)
    }

    /// The rows that were inserted since the slot `truth` was created, in the order of commits: key and id.
    pub fn committed(&self) -> Vec<(String, u64)> {
        let changes =
            self.sql("SELECT data FROM pg_logical_slot_peek_changes('truth', NULL, NULL)");
        let inserts = changes.iter().filter_map(|change| {
            let row = change.strip_prefix("table public.outbox: INSERT: id[bigint]:")?;
            let (id, rest) = row.split_once(' ')?;
            let key = rest.strip_prefix("key[text]:'")?.split('\'').next()?;
            Some((key.to_owned(), id.parse().unwrap()))
        });
        inserts.collect()
    }

    /// Creates the slot `truth`, from which the test reads the order of commits.
    pub fn keep_truth(&self) {
        self.sql("SELECT pg_create_logical_replication_slot('truth', 'test_decoding')");
    }
}

impl Drop for TestPostgres {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            self.kill();
        }
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.log()).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(30).collect();
            eprintln!("--- the log of Postgres, the last line first:\n{}", last.join("\n"));
        }
    }
}

/// Runs statements in a process of their own.
#[derive(Clone)]
pub struct Psql {
    port: u16,
    program: Arc<Path>,
}

impl Psql {
    pub fn run(&self, sql: &str) -> Output {
        let mut psql = Command::new(&*self.program);
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"]);
        psql.args(["-U", "postgres", "-p", &self.port.to_string(), "-c", sql]);
        psql.stdin(Stdio::null()).output().expect("psql is installed (make setup-tests)")
    }

    pub fn rows(&self, sql: &str) -> Vec<String> {
        let asked = self.run(sql);
        let (text, errors) =
            (String::from_utf8(asked.stdout).unwrap(), String::from_utf8_lossy(&asked.stderr));
        assert!(asked.status.success(), "{sql}: {errors}");
        text.lines().map(str::to_owned).collect()
    }
}
