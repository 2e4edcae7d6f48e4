//! One `/bin/sh` that runs command after command, framed over a byte stream.
//!
//! To the node goes a line `NUMBER SECONDS STDIN_LENGTH 'SCRIPT'` and then the standard input. Back
//! comes a line `TOKEN NUMBER STATUS OUT_LENGTH ERR_LENGTH` and then both outputs. The token is random,
//! and everything has a length, so neither a command's output nor a broken stream can pass for an
//! answer. Outputs go through files on the node: no amount of either can block the other, and a
//! daemon that a command leaves behind holds a file, not our stream.
//!
//! A line `NUMBER 'SCRIPT'` is the last: the shell becomes the script, and the stream is its own.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use deposed_core::{Command, Output};

use super::quote::quote_line;
use crate::inventory::Secret;

/// How long past a command's deadline its shell may take to say that it was killed.
pub(super) const GRACE: Duration = Duration::from_secs(1);
/// How much both outputs of a command may come to.
pub(super) const OUTPUT_BYTES_MAX: u64 = 64 << 20;
/// How much a login may print (rc files, banners) before its shell is up.
const NOISE_BYTES_MAX: usize = 64 << 10;
/// How long a line of the shell itself may be.
const LINE_BYTES_MAX: usize = 4 << 10;
/// How long a line of a program may be that the shell has become.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// A byte stream to a node, with a deadline.
pub(super) trait Wire: Read + Write {
    /// Past this moment reads and writes fail with [`ErrorKind::TimedOut`].
    fn until(&mut self, deadline: Instant);
}

/// How the shell is reached from the login user's own.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    /// Directly.
    Plain,
    /// Through a sudo that asks for nothing.
    Sudo,
    /// Through a sudo that may ask for this password.
    SudoPassword(Secret),
}

impl Entry {
    /// The command line that starts it: words any login shell reads alike.
    pub(super) fn command(&self, token: &str) -> String {
        let shell = format!("/bin/sh -c 'echo {token}; exec /bin/sh'");
        match self {
            Self::Plain => shell,
            Self::Sudo => format!("sudo -n {shell}"),
            Self::SudoPassword(_) => format!("sudo -S -p {} {shell}", prompt(token)),
        }
    }
}

/// Why a shell gave no output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The deadline passed and the command was killed. The shell lives.
    Killed,
    /// The deadline passed and nothing was heard. The shell must be given up.
    Silent,
    /// The stream broke or talked nonsense. The shell must be given up.
    Lost(String),
    /// The command ran, but its outputs are too long to take. The shell must be given up.
    Big(u64),
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::TimedOut => Self::Silent,
            ErrorKind::UnexpectedEof => Self::Lost("the node closed it".to_owned()),
            _ => Self::Lost(error.to_string()),
        }
    }
}

/// A running shell.
pub(super) struct Shell<W> {
    wire: W,
    token: String,
    frames: u64,
    unread: Vec<u8>,
    folder: String,
}

impl<W: Wire> Shell<W> {
    /// Brings the shell up on a stream on which [`Entry::command`] was just started.
    ///
    /// `orphan` is the folder of an earlier shell whose stream broke: what it still runs is killed.
    /// Errs with what the login said instead.
    pub(super) fn start(
        wire: W,
        token: &str,
        entry: &Entry,
        orphan: Option<&str>,
        deadline: Instant,
    ) -> Result<Self, Broken> {
        let mut shell = Self {
            wire,
            token: token.to_owned(),
            frames: 0,
            unread: Vec::new(),
            folder: String::new(),
        };
        shell.wire.until(deadline);
        shell.enter(entry)?;
        let script = SERVE.replace("@TOKEN@", token).replace("@ORPHAN@", orphan.unwrap_or("/-"));
        shell.wire.write_all(script.as_bytes())?;
        let line = shell.line()?;
        match line.strip_prefix(token).map(str::trim) {
            Some(folder) if folder.starts_with('/') => folder.clone_into(&mut shell.folder),
            Some(reason) => return Err(Broken::Lost(reason.to_owned())),
            None => return Err(Broken::Lost(format!("the shell said `{line}`"))),
        }
        Ok(shell)
    }

    /// The shell's folder on the node.
    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    /// The stream below.
    pub(super) fn wire(&self) -> &W {
        &self.wire
    }

    /// A round trip that runs nothing.
    pub(super) fn ping(&mut self, deadline: Instant) -> Result<(), Broken> {
        self.frames += 1;
        self.wire.until(deadline);
        self.wire.write_all(format!("{}\n", self.frames).as_bytes())?;
        self.answer().map(|_| ())
    }

    /// Runs a command. It is killed on the node when the deadline comes, connection or not.
    pub(super) fn run(&mut self, command: &Command, deadline: Instant) -> Result<Output, Broken> {
        self.frames += 1;
        self.wire.until(deadline + GRACE);
        let seconds = deadline.saturating_duration_since(Instant::now()).as_secs_f64().max(0.001);
        let line = format!(
            "{} {seconds:.3} {} {}\n",
            self.frames,
            command.stdin.len(),
            quote_line(&command.script)
        );
        self.wire.write_all(line.as_bytes())?;
        self.wire.write_all(&command.stdin)?;
        let (status, out_length, err_length) = self.answer()?;
        if out_length + err_length > OUTPUT_BYTES_MAX {
            return Err(Broken::Big(out_length + err_length));
        }
        let stdout = self.bytes(out_length)?;
        let stderr = self.bytes(err_length)?;
        if status == 128 + 9 && Instant::now() >= deadline {
            return Err(Broken::Killed);
        }
        Ok(Output { status, stdout, stderr })
    }

    /// Becomes a program. What follows on the stream is between it and whoever speaks to it.
    pub(super) fn exec(mut self, script: &str, deadline: Instant) -> Result<Lines<W>, Broken> {
        self.wire.until(deadline);
        self.wire.write_all(format!("0 {}\n", quote_line(script)).as_bytes())?;
        Ok(Lines { wire: self.wire, unread: self.unread })
    }

    /// Waits for the first token, answering sudo's prompt once.
    fn enter(&mut self, entry: &Entry) -> Result<(), Broken> {
        let prompt = prompt(&self.token);
        let mut asked = false;
        loop {
            if let Some(at) = find(&self.unread, format!("{}\n", self.token).as_bytes()) {
                self.unread.drain(..at + self.token.len() + 1);
                return Ok(());
            }
            if let Some(at) = find(&self.unread, prompt.as_bytes()) {
                self.unread.drain(..at + prompt.len());
                match entry {
                    Entry::SudoPassword(secret) if !asked => {
                        self.wire.write_all(format!("{}\n", secret.expose()).as_bytes())?;
                        asked = true;
                    }
                    _ => return Err(Broken::Lost("sudo: the password is wrong".to_owned())),
                }
                continue;
            }
            let noise = |unread: &[u8]| String::from_utf8_lossy(unread).trim().to_owned();
            if self.unread.len() > NOISE_BYTES_MAX {
                return Err(Broken::Lost("the login prints without end".to_owned()));
            }
            match self.fill() {
                Ok(()) => {}
                Err(Broken::Lost(reason)) if self.unread.is_empty() => {
                    return Err(Broken::Lost(reason));
                }
                Err(Broken::Lost(_)) => return Err(Broken::Lost(noise(&self.unread))),
                Err(broken) => return Err(broken),
            }
        }
    }

    /// The next answer: status and the lengths of both outputs.
    fn answer(&mut self) -> Result<(i32, u64, u64), Broken> {
        let line = self.line()?;
        let nonsense = || Broken::Lost(format!("the shell said `{line}`"));
        let mut words = line.split(' ');
        if words.next() != Some(&self.token) || words.next() != Some(&self.frames.to_string()) {
            return Err(nonsense());
        }
        let rest: Vec<&str> = words.collect();
        if let ["error", reason @ ..] = rest.as_slice() {
            return Err(Broken::Lost(reason.join(" ")));
        }
        let [status, out_length, err_length] = rest.as_slice() else { return Err(nonsense()) };
        match (status.parse(), out_length.parse(), err_length.parse()) {
            (Ok(status), Ok(out_length), Ok(err_length)) => Ok((status, out_length, err_length)),
            _ => Err(nonsense()),
        }
    }

    /// The next line of the shell itself.
    fn line(&mut self) -> Result<String, Broken> {
        loop {
            if let Some(at) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=at).collect();
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if self.unread.len() > LINE_BYTES_MAX {
                return Err(Broken::Lost("the shell talks nonsense".to_owned()));
            }
            self.fill()?;
        }
    }

    /// The next `length` bytes.
    fn bytes(&mut self, length: u64) -> Result<Vec<u8>, Broken> {
        let length = usize::try_from(length).expect("no longer than OUTPUT_BYTES_MAX");
        let buffered = length.min(self.unread.len());
        let mut bytes: Vec<u8> = self.unread.drain(..buffered).collect();
        bytes.resize(length, 0);
        self.wire.read_exact(&mut bytes[buffered..])?;
        Ok(bytes)
    }

    fn fill(&mut self) -> Result<(), Broken> {
        let mut chunk = [0; 16 << 10];
        match self.wire.read(&mut chunk)? {
            0 => Err(Broken::Lost("the node closed it".to_owned())),
            count => {
                self.unread.extend_from_slice(&chunk[..count]);
                Ok(())
            }
        }
    }
}

/// A program that answers lines.
pub(super) struct Lines<W> {
    wire: W,
    unread: Vec<u8>,
}

impl<W: Wire> Lines<W> {
    /// Says a line and waits for the next one.
    pub(super) fn ask(&mut self, line: &str, deadline: Instant) -> Result<String, Broken> {
        self.wire.until(deadline);
        self.wire.write_all(format!("{line}\n").as_bytes())?;
        let mut looked_at = 0;
        loop {
            if let Some(at) = self.unread[looked_at..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=looked_at + at).collect();
                return Ok(String::from_utf8_lossy(&line[..line.len() - 1]).into_owned());
            }
            looked_at = self.unread.len();
            if self.unread.len() > ANSWER_BYTES_MAX {
                return Err(Broken::Lost("the answer has no end".to_owned()));
            }
            let mut chunk = [0; 16 << 10];
            match self.wire.read(&mut chunk)? {
                0 => return Err(Broken::Lost("the program has ended".to_owned())),
                count => self.unread.extend_from_slice(&chunk[..count]),
            }
        }
    }
}

/// What sudo is told to ask with: recognisable, and one word to every shell.
fn prompt(token: &str) -> String {
    format!("sudo-{token}:")
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// What the shell on the node runs.
///
/// `read` takes one byte at a time and GNU `head -c` no more than it is told, so what follows a line
/// on the stream is left alone. `timeout` makes a process group of the command, kills all of it when
/// the time is up, and goes on doing so when the connection is gone. The folder lies in memory where
/// it can: a node whose disk was filled on purpose must still take commands. Traps are set rather
/// than signals ignored because commands would inherit the latter. A script too long for an argument
/// (128 KiB on Linux) goes through a file.
const SERVE: &str = r#"
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
export PATH LC_ALL
umask 022
cd /
exec 2>/dev/null
n='
'
orphan=$(cat "@ORPHAN@/pid") && [ "$(cat "/proc/$orphan/comm")" = timeout ] && kill -9 "-$orphan"
for tool in timeout head mktemp wc; do
    command -v "$tool" >/dev/null || { echo "@TOKEN@ needs '$tool': install coreutils"; exit 1; }
done
for parent in /dev/shm /run /tmp; do
    folder=$(mktemp -d "$parent/deposed-lane.XXXXXX") && break
done
[ -d "$folder" ] || { echo "@TOKEN@ cannot write to any of /dev/shm, /run and /tmp"; exit 1; }
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP PIPE TERM
echo "@TOKEN@ $folder"
while IFS= read -r line; do
    eval "set -- $line"
    if [ "$#" = 1 ]; then
        echo "@TOKEN@ $1 0 0 0"
        continue
    fi
    if [ "$#" = 2 ]; then
        trap - EXIT HUP PIPE TERM
        rm -rf "$folder"
        exec /bin/sh -c "$2"
    fi
    stdin=/dev/null
    if [ "$3" != 0 ]; then
        stdin=$folder/in
        if ! head -c "$3" >"$stdin" || [ "$(wc -c <"$stdin")" != "$3" ]; then
            echo "@TOKEN@ $1 error cannot store $3 bytes of standard input in $folder; nothing ran"
            exit 1
        fi
    fi
    if [ "${#4}" -gt 100000 ]; then
        printf '%s\n' "$4" >"$folder/script"
        set -- "$1" "$2" "$3" ". '$folder/script'"
    fi
    timeout -s KILL "$2" /bin/sh -c "echo \$PPID >'$folder/pid'; $4" \
        <"$stdin" >"$folder/out" 2>"$folder/err"
    status=$?
    out=0
    err=0
    [ -s "$folder/out" ] && out=$(wc -c <"$folder/out")
    [ -s "$folder/err" ] && err=$(wc -c <"$folder/err")
    echo "@TOKEN@ $1 $status $out $err"
    [ "$out" = 0 ] || head -c "$out" "$folder/out"
    [ "$err" = 0 ] || head -c "$err" "$folder/err"
    rm -f "$folder/in" "$folder/out" "$folder/err" "$folder/pid" "$folder/script"
done
"#;

#[cfg(test)]
mod tests {
    use std::process::{Child, ChildStdin, ChildStdout, Stdio};

    use super::*;

    /// A shell of this machine, over pipes. Pipes have no deadline: tests that need one use SSH.
    struct Pipes(Child, ChildStdin, ChildStdout);

    impl Read for Pipes {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.2.read(buffer)
        }
    }

    impl Write for Pipes {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.1.write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Wire for Pipes {
        fn until(&mut self, _: Instant) {}
    }

    impl Drop for Pipes {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    fn start(before: &str, orphan: Option<&str>) -> Result<Shell<Pipes>, Broken> {
        let line = format!("{before} {}", Entry::Plain.command("t0ken"));
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pipes = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Shell::start(Pipes(child, pipes.0, pipes.1), "t0ken", &Entry::Plain, orphan, soon())
    }

    #[test]
    fn status_and_both_outputs_come_back_byte_for_byte() {
        let mut shell = start("", None).unwrap();
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let script = "cat; echo 'it'\\''s\ntwo lines' >&2; exit 7";
        let output = shell.run(&Command::new(script).stdin(bytes.clone()), soon()).unwrap();
        assert_eq!(output.status, 7);
        assert_eq!(output.stdout, bytes);
        assert_eq!(output.stderr, b"it's\ntwo lines\n");
        assert_eq!(shell.run(&Command::new("echo next"), soon()).unwrap().text(), "next");
        shell.ping(soon()).unwrap();
    }

    #[test]
    fn a_script_may_be_longer_than_an_argument() {
        let mut shell = start("", None).unwrap();
        let script = format!("cat <<'END'\n{}END\nexit 3", "it's long\n".repeat(40_000));
        let output = shell.run(&Command::new(script), soon()).unwrap();
        assert_eq!((output.status, output.stdout.len()), (3, 400_000));
    }

    #[test]
    fn a_command_killed_by_a_signal_is_128_plus_the_signal() {
        let mut shell = start("", None).unwrap();
        for (script, status) in
            [("kill -TERM $$", 143), ("kill -9 $$", 137), ("kill -SEGV $$", 139)]
        {
            assert_eq!(shell.run(&Command::new(script), soon()).unwrap().status, status);
        }
    }

    #[test]
    fn noise_before_the_shell_is_skipped_and_told_when_there_is_no_shell() {
        assert!(start("echo welcome;", None).is_ok());
        assert_eq!(
            start("echo sudo: a password is required; exit;", None).err(),
            Some(Broken::Lost("sudo: a password is required".to_owned()))
        );
    }

    #[test]
    fn a_daemon_left_behind_does_not_talk_into_later_answers() {
        let mut shell = start("", None).unwrap();
        let script = "(for i in 1 2 3 4 5; do echo noise; sleep 0.02; done) & exit 0";
        shell.run(&Command::new(script), soon()).unwrap();
        for _ in 0..20 {
            assert_eq!(shell.run(&Command::new("echo mine"), soon()).unwrap().stdout, b"mine\n");
        }
    }

    #[test]
    fn what_an_abandoned_shell_still_runs_is_killed_by_its_successor() {
        let mut first = start("", None).unwrap();
        let folder = first.folder().to_owned();
        let line = "1 60 0 'exec sleep 1234.5'\n";
        first.wire.write_all(line.as_bytes()).unwrap();
        let pid_file = format!("{folder}/pid");
        while std::fs::read_to_string(&pid_file).unwrap_or_default().is_empty() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let group = std::fs::read_to_string(&pid_file).unwrap().trim().to_owned();
        start("", Some(&folder)).unwrap();
        let end = soon();
        while std::path::Path::new(&format!("/proc/{group}")).exists() {
            assert!(Instant::now() < end, "group {group} lives");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(first.line().unwrap().starts_with("t0ken 1 137 "));
    }

    #[test]
    fn it_becomes_a_program_that_answers_lines() {
        let mut shell = start("", None).unwrap();
        shell.run(&Command::new("true"), soon()).unwrap();
        let folder = shell.folder().to_owned();
        let program = "while read -r line; do echo \"got $line\"; done; exit";
        let mut lines = shell.exec(program, soon()).unwrap();
        for word in ["one", "it's two"] {
            assert_eq!(lines.ask(word, soon()).unwrap(), format!("got {word}"));
        }
        assert!(!std::path::Path::new(&folder).exists());
        let mut lines = start("", None).unwrap().exec("exit 3", soon()).unwrap();
        assert!(matches!(lines.ask("hello", soon()), Err(Broken::Lost(_))));
    }

    #[test]
    fn an_output_beyond_the_limit_is_refused_by_its_length() {
        let mut shell = start("", None).unwrap();
        let script = format!("truncate -s {} /dev/stdout", OUTPUT_BYTES_MAX + 1);
        let broken = shell.run(&Command::new(script), soon()).unwrap_err();
        assert_eq!(broken, Broken::Big(OUTPUT_BYTES_MAX + 1));
    }
}
