//! Writing to standard output and standard error.

use std::io::{self, Write};

use super::Failure;

/// Prints text to standard output. A reader that went away (`| head`) is no failure.
pub(crate) fn out(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::infrastructure(
            anyhow::Error::from(error).context("write to standard output"),
        )),
        Ok(()) => Ok(()),
    }
}

/// Says a line on standard error: what a person should know and a pipe should not get. That nobody
/// can be told (a terminal that is gone) must not end what is being done: there is healing to do.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr(), "deposed: {line}");
}
