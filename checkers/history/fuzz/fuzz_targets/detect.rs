//! Any bytes, compressed or not, in the format they look like.

#![no_main]

use deposed_history::{ReadOptions, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = read(bytes, &ReadOptions::default());
});
