//! `deposed convert FILE`: a history in another format.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use deposed_history::{Format, ReadOptions, edn, elle, jsonl};

use super::{Failure, check, note};
use crate::exit;
use crate::progress::{Progress, Told};
use crate::verdict;

/// Write a history in another format.
///
/// Reads what `deposed check` reads: our JSON lines, Jepsen's and Knossos's EDN, elle-cli's JSON,
/// Porcupine's logs; plain, gzip or zstd.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The history
    file: PathBuf,

    /// The format to write: jsonl, edn, or json (elle-cli's)
    #[arg(long)]
    to: Format,

    /// The format to read, if it is not to be told from the contents
    #[arg(long)]
    format: Option<Format>,

    /// Values are [key, value] pairs
    #[arg(long)]
    keyed: bool,

    /// Where to write [default: standard output]
    #[arg(long, short)]
    output: Option<PathBuf>,
}

pub(super) fn main(args: &Args) -> Result<u8, Failure> {
    let options = ReadOptions { format: args.format, keyed: args.keyed };
    let progress = Progress::new(|told| {
        if let Told::Warned { warning } = told {
            note(&warning);
        }
    });
    let history = verdict::load(&args.file, &options, &progress).map_err(check::failure)?;
    let writer: Box<dyn Write> = match &args.output {
        None => Box::new(io::stdout().lock()),
        Some(path) => Box::new(
            File::create(path)
                .with_context(|| format!("create {}", path.display()))
                .map_err(Failure::usage)?,
        ),
    };
    let mut writer = BufWriter::new(writer);
    let written = match args.to {
        Format::Jsonl => jsonl::write(&mut writer, &history),
        Format::Edn => edn::write(&mut writer, &history),
        Format::Json => {
            if history.header().keyed {
                note("JSON cannot say that values are [key, value] pairs: read it with --keyed");
            }
            elle::write(&mut writer, &history)
        }
        Format::Log => {
            return Err(Failure::usage(anyhow!("logs are only read; write jsonl, edn or json")));
        }
    };
    match written.and_then(|()| writer.flush()) {
        // A reader that went away (`| head`) is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(exit::VALID),
        Err(error) => {
            Err(Failure::infrastructure(anyhow::Error::from(error).context("write the history")))
        }
        Ok(()) => Ok(exit::VALID),
    }
}
