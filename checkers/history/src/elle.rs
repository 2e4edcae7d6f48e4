//! Writing the JSON that elle-cli takes: one array of events with the keys Jepsen uses.

use std::io::{self, Write};

use crate::{History, jsonl};

/// Writes a whole history. The header is left out: elle-cli takes its settings as arguments.
///
/// # Errors
/// Those of `out`.
pub fn write(mut out: impl Write, history: &History) -> io::Result<()> {
    let mut line = b"[".to_vec();
    for op in history.ops() {
        if op.position() > 0 {
            line.extend_from_slice(b",\n");
        }
        jsonl::write_op(&mut line, &op.to_op());
        // Without its line end: a comma may have to follow.
        line.pop();
        out.write_all(&line)?;
        line.clear();
    }
    line.extend_from_slice(b"]\n");
    out.write_all(&line)?;
    out.flush()
}
