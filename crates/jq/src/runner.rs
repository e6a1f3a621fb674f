//! The parent's side: starts a child process that evaluates expressions, and can kill it.

use std::{ffi::OsString, io, os::unix::process::ExitStatusExt, process::Stdio};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::{
    child::MEMORY_BYTES_MAX,
    protocol::{self, Evaluated, GREETING, Input, VERSION},
};

/// The environment variable that names the program to run as a runner.
pub const PROGRAM_VARIABLE: &str = "RESEQ_JQ_RUNNER";
/// The parent sets this variable for a runner.
const CHILD_VARIABLE: &str = "RESEQ_JQ_CHILD";
/// An answer may be this many bytes longer than the output in it.
const ANSWER_OVERHEAD: usize = 64 * 1024;

/// True if this process was started as a runner. Programs other than `reseq` check this, because
/// they cannot be runners.
pub fn is_meant_as_runner() -> bool {
    std::env::var_os(CHILD_VARIABLE).is_some()
}

/// The program that runs expressions: a `reseq` binary.
#[derive(Debug, Clone)]
pub struct Program(OsString);

impl Program {
    /// The program at this path.
    pub fn new(path: impl Into<OsString>) -> Program {
        Program(path.into())
    }

    /// The program named by `RESEQ_JQ_RUNNER`, or the program of this process.
    pub fn of_environment() -> Program {
        let named = std::env::var_os(PROGRAM_VARIABLE).filter(|path| !path.is_empty());
        Program(named.unwrap_or_else(|| {
            // On Linux, this path names the same program even after its file is replaced.
            match cfg!(target_os = "linux") {
                true => "/proc/self/exe".into(),
                false => std::env::current_exe().map_or_else(|_| "reseq".into(), Into::into),
            }
        }))
    }

    /// An error about this program, with advice.
    fn unfit(&self, problem: &str) -> String {
        let path = self.0.to_string_lossy();
        format!(
            "no expression can be run: {path} {problem}; {PROGRAM_VARIABLE} must name a reseq \
             {VERSION} binary"
        )
    }
}

/// A process that evaluates expressions. Dropping it kills it.
pub struct Runner {
    child: Child,
    inputs: ChildStdin,
    answers: ChildStdout,
}

impl Runner {
    /// Starts a runner with this framed setup, and waits until it is ready. The error is a sentence.
    pub async fn start(program: &Program, setup: &[u8]) -> Result<Runner, String> {
        let mut child = Command::new(&program.0)
            .arg("jq-runner")
            // The runner must not get the environment, which holds secrets, nor Ctrl-C.
            .env_clear()
            .env(CHILD_VARIABLE, "1")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| program.unfit(&format!("could not be started ({error})")))?;
        let (Some(inputs), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(program.unfit("has no input and output"));
        };
        let mut runner = Runner { child, inputs, answers };
        let version = runner.greeting().await;
        let version = version.map_err(|_| program.unfit("does not answer as a jq runner does"))?;
        if version != VERSION {
            return Err(program.unfit(&format!("is version {version:.20}")));
        }
        let is_ready = runner.set_up(setup).await;
        is_ready.map_err(|error| program.unfit(&format!("ended ({error})")))?;
        Ok(runner)
    }

    async fn greeting(&mut self) -> io::Result<String> {
        let mut greeting = [0; GREETING.len()];
        self.answers.read_exact(&mut greeting).await?;
        if greeting != *GREETING {
            return Err(io::ErrorKind::InvalidData.into());
        }
        protocol::decode(&self.frame(ANSWER_OVERHEAD).await?)
    }

    async fn set_up(&mut self, setup: &[u8]) -> io::Result<()> {
        self.inputs.write_all(setup).await?;
        self.frame(ANSWER_OVERHEAD).await.map(drop)
    }

    async fn frame(&mut self, bytes_max: usize) -> io::Result<Vec<u8>> {
        let length = self.answers.read_u32().await? as usize;
        if length > bytes_max {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; length];
        self.answers.read_exact(&mut bytes).await?;
        Ok(bytes)
    }

    /// The id of the process, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends an expression with an input, and reads the answer. After an error, or if this future
    /// is dropped early, the runner cannot be used again. The error is a sentence.
    pub async fn ask(
        &mut self,
        expression: &str,
        input: &Input,
        output_bytes_max: usize,
    ) -> Result<Evaluated, String> {
        let asked = async {
            self.inputs.write_all(&protocol::frame(&(expression, input))?).await?;
            let answer = self.frame(output_bytes_max + ANSWER_OVERHEAD).await?;
            protocol::decode(&answer)
        };
        match asked.await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.death(&error).await),
        }
    }

    /// Why the process ended, as a sentence.
    async fn death(&mut self, error: &io::Error) -> String {
        let _ = self.child.start_kill();
        let memory = MEMORY_BYTES_MAX >> 20;
        match self.child.wait().await.map(|status| (status.signal(), status.code())) {
            Ok((Some(signal), _)) => format!(
                "the process of the expression died of signal {signal}: it used up its memory \
                 ({memory} MiB) or its stack, or was killed"
            ),
            Ok((None, Some(code))) => {
                format!("the process of the expression ended with code {code} ({error})")
            }
            _ => format!("the process of the expression broke off: {error}"),
        }
    }
}
