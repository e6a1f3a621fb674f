//! The fixtures for recipes: pods, and Node.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::support::{
    checker::{forgotten, stats},
    pods::{Pod, Settings},
    redis::TestRedis,
    wait::{LOOK_EVERY, eventually},
};

/// A recipe that has not ended within this time fails its test.
const PATIENCE: Duration = Duration::from_secs(900);
/// Two sandboxes run at a time, because each mostly waits.
static TWO_AT_A_TIME: Semaphore = Semaphore::const_new(2);

/// Pods on one Redis.
pub struct Sandbox {
    pub redis: TestRedis,
    pub pods: Vec<Pod>,
    pub settings: Settings,
    /// Patched recipes, which do not compare epochs.
    without_epochs: Option<TempDir>,
    _turn: SemaphorePermit<'static>,
}

impl Sandbox {
    /// Waits for a turn. The turn ends when the result is dropped.
    pub async fn turn() -> SemaphorePermit<'static> {
        TWO_AT_A_TIME.acquire().await.expect("it is never closed")
    }

    /// Starts this many pods, each with all roles.
    pub async fn open(count: usize) -> Sandbox {
        let turn = Sandbox::turn().await;
        node_client();
        let redis = TestRedis::start().await;
        let settings = Settings::new(redis.url());
        let mut sandbox =
            Sandbox { redis, pods: Vec::new(), settings, without_epochs: None, _turn: turn };
        for _ in 0..count {
            sandbox.add_pod().await;
        }
        sandbox
    }

    pub async fn add_pod(&mut self) {
        let name = format!("pod-{}", self.pods.len() + 1);
        self.pods.push(Pod::start(&name, "ingest,processor,sender", &self.settings).await);
    }

    /// The pods' addresses in the format that recipes expect.
    pub fn urls(&self) -> String {
        self.pods.iter().map(|pod| pod.url("")).collect::<Vec<_>>().join(",")
    }

    /// Starts a recipe with these arguments and environment variables.
    pub fn start(&self, recipe: &str, args: &[&str], settings: &[(&str, &str)]) -> RecipeProcess {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| std::fs::File::create(dir.path().join(name)).unwrap();
        let patched = self.without_epochs.as_ref().map(|dir| dir.path().to_owned());
        let script = patched.unwrap_or_else(recipes).join(recipe);
        let runs_in = if recipe.ends_with(".sh") { "sh" } else { "node" };
        let mut command = Command::new(runs_in);
        command.arg(script).args(args).env("RESEQ_URL", self.urls());
        command.envs(settings.iter().copied());
        command.stdin(Stdio::null()).stdout(file("found")).stderr(file("errors"));
        let child = command.spawn().expect("it is installed");
        RecipeProcess { recipe: recipe.to_owned(), child, dir }
    }

    /// From now on, the receivers of recipes compare only sequences, not epochs.
    pub fn forget_epochs(&mut self) {
        const RIGHT: &str = "listener(request, response);";
        const WRONG: &str =
            "request.headers[\"reseq-epoch\"] = \"1\"; listener(request, response);";
        let dir = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(recipes()).unwrap() {
            let (path, name) = file.map(|file| (file.path(), file.file_name())).unwrap();
            if name == "lib.mjs" {
                let text = std::fs::read_to_string(&path).unwrap();
                assert_eq!(text.matches(RIGHT).count(), 1);
                std::fs::write(dir.path().join(name), text.replace(RIGHT, WRONG)).unwrap();
            } else if path.is_file() {
                std::fs::copy(&path, dir.path().join(name)).unwrap();
            }
        }
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("node_modules");
        std::os::unix::fs::symlink(modules, dir.path().join("node_modules")).unwrap();
        self.without_epochs = Some(dir);
    }

    /// Runs a recipe to its end. Returns its last line, which is its result.
    pub async fn run(&self, recipe: &str, settings: &[(&str, &str)]) -> Value {
        self.start(recipe, &[], settings).finish().await
    }

    /// Checks that every message of a destination is pending or gone. Returns its counters.
    pub async fn balanced(&self, destination: &str) -> Value {
        let numbers = stats(&self.pods[0], destination).await.unwrap();
        let number = |field: &str| numbers[field].as_u64().unwrap_or_else(|| panic!("{numbers}"));
        let gone = ["delivered_total", "dropped_total", "dead_lettered_total", "cancelled_total"];
        let gone: u64 = gone.into_iter().map(number).sum();
        assert_eq!(number("last_sequence"), number("pending") + gone, "{destination}: {numbers}");
        numbers
    }

    /// Waits until Redis holds no data of messages.
    pub async fn forgotten(&self) {
        forgotten(&mut self.redis.connection().await).await;
    }
}

/// Builds the Node.js client, once per process: other tests may be using it.
pub fn node_client() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/node-client.sh");
        let status = Command::new(script).status().unwrap();
        assert!(status.success(), "the Node.js client cannot be built: {status}");
    });
}

fn recipes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/recipes")
}

/// A running recipe. Dropping this ends it.
pub struct RecipeProcess {
    recipe: String,
    child: Child,
    dir: TempDir,
}

impl RecipeProcess {
    /// The process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The lines that the recipe has printed.
    pub fn said(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.file("found")).unwrap();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until the recipe has printed a line that satisfies `wanted`.
    pub async fn says(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("{} says {what}", self.recipe), async || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{} ended with {status} before it said {what}", self.recipe);
            }
            let said = self.said();
            said.iter()
                .find(|line| wanted(line))
                .cloned()
                .ok_or_else(|| format!("{:?}", said.last()))
        })
        .await
    }

    /// Asks it to end, with SIGTERM.
    pub fn terminate(&self) {
        let id = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(id, Signal::TERM).unwrap();
    }

    /// Waits for its end. Returns its last line, which is its result.
    pub async fn finish(mut self) -> Value {
        let ended = tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some(status) = self.child.try_wait().unwrap() {
                    return status;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        let ended = ended.await;
        let status = ended.unwrap_or_else(|_| panic!("{} goes on for too long", self.recipe));
        let said = self.said();
        assert!(status.success(), "{} ended with {status}; it said {said:?}", self.recipe);
        said.last().cloned().unwrap_or_else(|| panic!("{} found nothing", self.recipe))
    }

    /// Waits for its end. Returns its status and its errors.
    pub async fn refused(mut self) -> (Option<i32>, String) {
        let status = eventually(&format!("{} ends", self.recipe), async || {
            self.child.try_wait().unwrap().ok_or_else(|| "it runs".to_owned())
        })
        .await;
        (status.code(), std::fs::read_to_string(self.file("errors")).unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for RecipeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let errors = std::fs::read_to_string(self.file("errors")).unwrap_or_default();
            eprintln!("--- {} said {:?}\n{errors}", self.recipe, self.said());
        }
    }
}
