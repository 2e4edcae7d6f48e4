//! Writes a made-up history, to measure with:
//! `cargo run --release -p deposed-history --example generate -- register 1000000 > register.jsonl`

#[path = "../benches/histories/mod.rs"]
mod histories;

use std::io::{self, Write};

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_default();
    let calls = arguments.next().and_then(|calls| calls.parse().ok());
    let (true, Some(calls)) = (histories::KINDS.contains(&kind.as_str()), calls) else {
        let usage = format!("usage: generate {} CALLS", histories::KINDS.join("|"));
        return Err(io::Error::other(usage));
    };
    let mut out = io::stdout().lock();
    histories::write(&mut out, &kind, calls)?;
    out.flush()
}
