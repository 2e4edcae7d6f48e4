//! EDN. What is read must come back when it is written and read again.

#![no_main]

mod again;

use deposed_history::{Format, edn};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| again::check(bytes, Format::Edn, |out, history| {
    edn::write(out, history)
}));
