//! `deposed client KIND ADDRESS MILLISECONDS`: what a run starts on nodes, with `--clients on-nodes`.

use anyhow::Context;
use deposed_workloads::serve_client;

use super::Failure;
use crate::exit;

/// Be a client built in, for whoever speaks to standard input.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which
    kind: String,
    /// Where it connects: address and port
    addr: String,
    /// How long an operation may take
    op_limit_ms: u64,
}

pub(super) fn main(args: &Args) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the asynchronous runtime")
        .map_err(Failure::infrastructure)?;
    let served = runtime.block_on(serve_client(&args.kind, &args.addr, args.op_limit_ms));
    // Reading standard input cannot be called off; nobody waits for it.
    runtime.shutdown_background();
    served.context("serve as a client").map_err(Failure::infrastructure)?;
    Ok(exit::VALID)
}
