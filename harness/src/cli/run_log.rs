//! `run.log`: what the controller did, as JSON lines.

use std::fs::File;
use std::path::Path;
use std::sync::Mutex;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// Sends everything that is traced from now on to a file. `DEPOSED_LOG` chooses what: `debug`,
/// `deposed_nemeses=trace`, …
pub(super) fn start(path: &Path) -> Result<(), anyhow::Error> {
    let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
    let filter = EnvFilter::try_from_env("DEPOSED_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_env_filter(filter)
        .with_writer(Mutex::new(file))
        // A log that cannot be written, on a full disk, is no word for the user's screen.
        .log_internal_errors(false)
        .finish();
    tracing::subscriber::set_global_default(subscriber).context("start the run's log")
}
