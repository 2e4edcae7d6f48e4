//! What the machine we run on contributes: home, environment, agent, terminal.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};

/// Finds a value by its name.
pub type Lookup = Box<dyn Fn(&str) -> Option<String>>;
/// Asks for a secret, by what it is.
pub type Ask = Box<dyn Fn(&str) -> std::io::Result<String>>;

/// What is taken from the machine and the user that run the harness, so that tests can give their own.
pub struct Surroundings {
    /// What `~` stands for.
    pub home: PathBuf,
    /// OpenSSH's configuration, if it is to be honoured.
    pub ssh_config: Option<PathBuf>,
    /// The socket of an SSH agent.
    pub agent: Option<PathBuf>,
    /// An environment variable, by name.
    pub env: Lookup,
    /// Asks for a secret at the terminal, by what it is.
    pub ask: Ask,
}

impl Surroundings {
    /// Those of this process.
    pub fn here() -> Self {
        let home = std::env::home_dir().unwrap_or_else(|| PathBuf::from("/"));
        Self {
            ssh_config: Some(home.join(".ssh/config")),
            home,
            agent: std::env::var_os("SSH_AUTH_SOCK").map(PathBuf::from),
            env: Box::new(|name| std::env::var(name).ok()),
            ask: Box::new(ask),
        }
    }

    /// A path as users write it: `~` is home, and what is relative lies in `base`.
    pub(super) fn path(&self, written: &Path, base: &Path) -> PathBuf {
        match written.strip_prefix("~") {
            Ok(rest) => self.home.join(rest),
            Err(_) => base.join(written),
        }
    }
}

/// Asks at the terminal itself, whatever standard input is, without an echo.
fn ask(what: &str) -> std::io::Result<String> {
    let mut terminal = std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    write!(terminal, "{what}: ")?;
    let before = tcgetattr(&terminal)?;
    let mut silent = before.clone();
    silent.local_flags.remove(LocalFlags::ECHO);
    tcsetattr(&terminal, SetArg::TCSAFLUSH, &silent)?;
    let mut line = String::new();
    let read = BufReader::new(&terminal).read_line(&mut line);
    tcsetattr(&terminal, SetArg::TCSAFLUSH, &before)?;
    writeln!(terminal)?;
    read?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
