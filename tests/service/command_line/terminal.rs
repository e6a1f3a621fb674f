//! Runs a command in a real pseudo-terminal of 80 columns and 24 rows, and reads its screen.

use std::{
    io::{Read, Write},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::support::wait::eventually;

const ROWS: u16 = 24;
const COLUMNS: u16 = 80;

/// A command in a terminal.
pub struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    output: Arc<Mutex<Output>>,
    /// Reads until the command has ended.
    reader: JoinHandle<()>,
}

/// The output of the command.
struct Output {
    screen: vt100::Parser,
    raw: Vec<u8>,
}

impl Terminal {
    /// Starts `reseq` with these arguments and variables.
    pub fn start(args: &[&str], variables: &[(&str, &str)]) -> Terminal {
        let size = PtySize { rows: ROWS, cols: COLUMNS, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_reseq"));
        command.args(args);
        for name in ["NO_COLOR", "RESEQ_HEADER", "RESEQ_TOKEN", "RESEQ_CONTEXT"] {
            command.env_remove(name);
        }
        command.env("TERM", "xterm-256color");
        variables.iter().for_each(|(name, value)| command.env(name, value));
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let screen = vt100::Parser::new(ROWS, COLUMNS, 0);
        let output = Arc::new(Mutex::new(Output { screen, raw: Vec::new() }));
        let (mut reader, kept) = (pair.master.try_clone_reader().unwrap(), output.clone());
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // An error means that the command has ended.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                let mut output = kept.lock().unwrap();
                output.screen.process(&bytes[..count]);
                output.raw.extend_from_slice(&bytes[..count]);
            }
        });
        let keyboard = pair.master.take_writer().unwrap();
        Terminal { child, master: pair.master, keyboard, output, reader }
    }

    /// The text on the screen.
    pub fn screen(&self) -> String {
        self.output.lock().unwrap().screen.screen().contents()
    }

    /// The whole output, with its control sequences.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap().raw).into_owned()
    }

    /// True if the command draws on the alternate screen.
    pub fn is_full_screen(&self) -> bool {
        self.output.lock().unwrap().screen.screen().alternate_screen()
    }

    /// Waits until what is typed does not show. A prompt appears a moment before that.
    pub async fn echoes_nothing(&self) {
        eventually("nothing is echoed", async || {
            let termios = self.master.get_termios().ok_or("no terminal")?;
            let flags = format!("{:?}", termios.local_flags);
            let mut words = flags.split(|c: char| !c.is_ascii_alphanumeric());
            if words.any(|word| word == "ECHO") { Err(flags.clone()) } else { Ok(()) }
        })
        .await;
    }

    /// True if the cursor is hidden.
    pub fn hides_cursor(&self) -> bool {
        self.output.lock().unwrap().screen.screen().hide_cursor()
    }

    /// True if a text on the screen has a colour.
    pub fn is_coloured(&self, text: &str) -> bool {
        let output = self.output.lock().unwrap();
        let screen = output.screen.screen();
        let at = (0..ROWS).find_map(|row| {
            let line = screen.rows(0, COLUMNS).nth(row.into())?;
            Some((row, line[..line.find(text)?].chars().count() as u16))
        });
        let cell = at.and_then(|(row, column)| screen.cell(row, column));
        cell.is_some_and(|cell| cell.fgcolor() != vt100::Color::Default)
    }

    /// True if the terminal is restored: it shows typed lines, and reads whole lines.
    pub fn is_restored(&self) -> bool {
        let Some(termios) = self.master.get_termios() else { return false };
        let flags = format!("{:?}", termios.local_flags);
        ["ICANON", "ECHO"].iter().all(|flag| flags.contains(flag))
            && !self.is_full_screen()
            && !self.hides_cursor()
    }

    /// Waits until the screen shows this.
    pub async fn shows(&self, text: &str) -> String {
        eventually(&format!("the screen shows {text:?}"), async || {
            let screen = self.screen();
            if screen.contains(text) { Ok(screen) } else { Err(screen) }
        })
        .await
    }

    /// Types these characters.
    pub fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Sends a signal to the command.
    pub fn signal(&self, signal: i32) {
        let id = self.child.process_id().expect("it runs") as i32;
        // SAFETY: this only sends a signal to a process that this test started.
        assert_eq!(unsafe { libc::kill(id, signal) }, 0);
    }

    /// Waits until the command ends, and everything that it wrote is read. Returns its exit code.
    pub async fn ended(&mut self) -> u32 {
        let mut status = None;
        for _ in 0..3_000 {
            status = self.child.try_wait().unwrap();
            if status.is_some() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let status = status.unwrap_or_else(|| panic!("it goes on:\n{}", self.screen()));
        eventually("everything is read", async || match self.reader.is_finished() {
            true => Ok(()),
            false => Err(String::new()),
        })
        .await;
        status.exit_code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The command may have ended already.
        let _ = self.child.kill();
    }
}
