//! Reads, writes, and reads again.

use std::io;

use deposed_history::{History, Op, OpRef, ReadOptions, Rules, read, validate};

/// Whatever the bytes are, reading them ends; and if they are a history, what is written of it is
/// the same history.
pub(crate) fn check(
    bytes: &[u8],
    format: deposed_history::Format,
    write: impl Fn(&mut Vec<u8>, &History) -> io::Result<()>,
) {
    let options = ReadOptions { format: Some(format), keyed: false };
    let Ok(loaded) = read(bytes, &options) else { return };
    // What is written says that it is ours, and that is judged more strictly.
    if !validate(&loaded.history, Rules::Own).0.is_empty() {
        return;
    }
    let mut written = Vec::new();
    write(&mut written, &loaded.history).expect("a Vec takes it");
    let again = read(written.as_slice(), &ReadOptions::default()).expect("what was written can be read");
    let ops = |history: &History| history.ops().map(OpRef::to_op).collect::<Vec<Op>>();
    assert_eq!(ops(&again.history), ops(&loaded.history));
}
