//! The vDSO of a process as it lies in memory: an ELF shared object of one or two pages.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::machine;

/// Largest vDSO that is believed, in bytes. There are two pages of it in Linux 6.
const SIZE_MAX: u64 = 1 << 16;

/// A copy of a process's vDSO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// Where it begins in that process.
    base: u64,
    /// What is there.
    bytes: Vec<u8>,
}

/// Program header types and dynamic tags of the ELF specification.
const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;

/// Size of a symbol table entry.
const SYMBOL: u64 = 24;

impl Image {
    /// Copies it from a process; `None` if that has none (a process that is ending, a thread of the
    /// kernel).
    pub(super) fn of(pid: u32) -> io::Result<Option<Self>> {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let Some(range) = maps.lines().find_map(|line| {
            let range = line.strip_suffix("[vdso]")?.split(' ').next()?;
            parse_range(range)
        }) else {
            return Ok(None);
        };
        let mut bytes = vec![0; (range.end - range.start).min(SIZE_MAX) as usize];
        File::open(format!("/proc/{pid}/mem"))?.read_exact_at(&mut bytes, range.start)?;
        Ok(Some(Self { base: range.start, bytes }))
    }

    /// Where it begins in the process.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Whether it is of the word size this program is made for.
    pub(super) fn is_native(&self) -> bool {
        const ELFCLASS64: u8 = 2;
        self.bytes.starts_with(b"\x7fELF") && self.bytes.get(4) == Some(&ELFCLASS64)
    }

    /// Addresses of a function in the process.
    pub(super) fn function(&self, name: &str) -> Option<Range<u64>> {
        let headers = self.number(32, 8)?;
        let (mut bias, mut dynamic) = (None, None);
        for index in 0..self.number(56, 2)? {
            let header = headers + 56 * index;
            match self.number(header, 4)? {
                // Where the linker placed the first byte of the file.
                PT_LOAD => {
                    let (offset, address) =
                        (self.number(header + 8, 8)?, self.number(header + 16, 8)?);
                    bias.get_or_insert(address.wrapping_sub(offset));
                }
                PT_DYNAMIC => dynamic = Some(self.number(header + 8, 8)?),
                _ => {}
            }
        }
        let bias = bias?;
        let tag = |wanted| {
            let mut at = dynamic?;
            loop {
                match self.number(at, 8)? {
                    0 => return None,
                    tag if tag == wanted => {
                        return Some(self.number(at + 8, 8)?.wrapping_sub(bias));
                    }
                    _ => at += 16,
                }
            }
        };
        let (symbols, strings) = (tag(DT_SYMTAB)?, tag(DT_STRTAB)?);
        let count = match tag(DT_HASH) {
            Some(hash) => self.number(hash + 4, 4)?,
            // Linkers put the names right behind the symbols.
            None => strings.checked_sub(symbols)? / SYMBOL,
        };
        (0..count).find_map(|index| {
            let symbol = symbols + SYMBOL * index;
            let text = self.bytes.get((strings + self.number(symbol, 4)?) as usize..)?;
            let rest = text.strip_prefix(name.as_bytes())?;
            if rest.first() != Some(&0) {
                return None;
            }
            let from = self.base + self.number(symbol + 8, 8)?.wrapping_sub(bias);
            Some(from..from + self.number(symbol + 16, 8)?)
        })
    }

    /// Address of an instruction in it that enters the kernel.
    pub(super) fn system_call(&self) -> Option<u64> {
        let wanted = machine::SYSTEM_CALL;
        let mut places = (0..self.bytes.len()).step_by(machine::ALIGNMENT);
        let at = places.find(|at| self.bytes[*at..].starts_with(wanted))?;
        Some(self.base + at as u64)
    }

    /// What is at some addresses of the process.
    pub(super) fn bytes(&self, range: Range<u64>) -> Option<&[u8]> {
        let from = range.start.checked_sub(self.base)? as usize;
        self.bytes.get(from..from + (range.end - range.start) as usize)
    }

    /// A little-endian number of so many bytes.
    fn number(&self, at: u64, len: usize) -> Option<u64> {
        let bytes = self.bytes.get(at as usize..(at as usize).checked_add(len)?)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

/// `FROM-TO` in hexadecimal, as `/proc/PID/maps` has it.
pub(super) fn parse_range(text: &str) -> Option<Range<u64>> {
    let (from, to) = text.split_once('-')?;
    Some(u64::from_str_radix(from, 16).ok()?..u64::from_str_radix(to, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions of this process's own vDSO are found, each inside of it, and what is not there
    /// is not.
    #[test]
    fn functions_of_this_process() {
        let image = Image::of(std::process::id()).unwrap().unwrap();
        assert!(image.is_native());
        for name in machine::FUNCTIONS {
            let range = image.function(name).unwrap_or_else(|| panic!("no {name}"));
            assert!(image.bytes(range).is_some_and(|bytes| !bytes.is_empty()));
        }
        assert_eq!(image.function("__vdso_clock_gett"), None);
        assert_eq!(image.function("nothing"), None);
        assert!(image.system_call().is_some());
    }

    /// Nonsense is refused, not followed out of bounds.
    #[test]
    fn nonsense_has_no_functions() {
        for fill in [0, 0x7f, 0xff] {
            let image = Image { base: 0x7000, bytes: vec![fill; 4096] };
            assert_eq!(image.function("__vdso_time"), None);
            assert!(!image.is_native());
        }
    }
}
