//! JSON in all its shapes. What is read must come back when it is written and read again.

#![no_main]

mod again;

use deposed_history::{Format, jsonl};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| again::check(bytes, Format::Json, |out, history| {
    jsonl::write(out, history)
}));
