//! x86-64.

#![expect(
    unsafe_code,
    reason = "what a patched process runs is written in the processor's language"
)]

pub(in crate::vdso) use libc::user_regs_struct as Registers;

/// The functions of the vDSO that tell the time of day. The order is that of [`code`].
pub(in crate::vdso) const FUNCTIONS: [&str; 3] =
    ["__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time"];

/// The instruction that enters the kernel.
pub(in crate::vdso) const SYSTEM_CALL: &[u8] = &[0x0f, 0x05];

/// Instructions lie at multiples of this many bytes.
pub(in crate::vdso) const ALIGNMENT: usize = 1;

/// The instruction that stops a process for its tracer.
pub(in crate::vdso) const BREAKPOINT: &[u8] = &[0xcc];

/// Length of a [`jump`].
pub(in crate::vdso) const JUMP: usize = 12;

const CODE_SIZE: usize = 512;

// What patched functions run. It is copied into another process, so it refers to nothing outside.
// Like the functions it stands for it may use rax, rcx, rdx, rsi, rdi and r8 to r11.
//
// The cell holds, in 64-bit words, the number of the slot in force, and from byte 64 on slots of
// four: offset and base in nanoseconds, and a rate in units of 2^-32. The kernel's time `t` becomes
// `t + offset + (t - base) * rate`. A writer fills another slot before it changes the number; so a
// reader that finds the same number before and after has read one slot and not two.
std::arch::global_asm!(
    r#"
    .pushsection .rodata.deposed_clock, "a", @progbits
    .balign 8
    .globl deposed_clock_code
deposed_clock_code:
    .quad 0                                     // the address of the cell
    .long .Ldeposed_gettime - deposed_clock_code
    .long .Ldeposed_gettimeofday - deposed_clock_code
    .long .Ldeposed_time - deposed_clock_code
    .long 0

.Ldeposed_gettime:                              // edi: clock, rsi: struct timespec
    mov eax, 228                                // clock_gettime
    syscall
    test eax, eax
    jnz 2f
    test edi, edi                               // CLOCK_REALTIME
    jz 1f
    cmp edi, 5                                  // CLOCK_REALTIME_COARSE
    je 1f
    cmp edi, 11                                 // CLOCK_TAI
    jne 2f
1:  imul r8, [rsi], 1000000000
    add r8, [rsi + 8]
    call .Ldeposed_move
    mov [rsi], rax
    mov [rsi + 8], rdx
    xor eax, eax
2:  ret

.Ldeposed_gettimeofday:                         // rdi: struct timeval or null, rsi: time zone
    mov eax, 96                                 // gettimeofday
    syscall
    test eax, eax
    jnz 3f
    test rdi, rdi
    jz 3f
    imul r8, [rdi], 1000000000
    imul r9, [rdi + 8], 1000
    add r8, r9
    call .Ldeposed_move
    mov [rdi], rax
    mov rax, rdx
    xor edx, edx
    mov r9d, 1000
    div r9
    mov [rdi + 8], rax
    xor eax, eax
3:  ret

.Ldeposed_time:                                 // rdi: time_t or null
    sub rsp, 24
    mov [rsp + 16], rdi
    xor edi, edi
    mov rsi, rsp
    call .Ldeposed_gettime
    mov rax, [rsp]
    mov rdi, [rsp + 16]
    add rsp, 24
    test rdi, rdi
    jz 4f
    mov [rdi], rax
4:  ret

.Ldeposed_move:                                 // r8: the kernel's time in ns; rax: s, rdx: ns
    mov rcx, [rip + deposed_clock_code]
5:  mov r9, [rcx]
    mov r10, r9
    shl r10, 5
    lea r10, [rcx + r10 + 64]
    mov rax, r8
    sub rax, [r10 + 8]
    imul qword ptr [r10 + 16]
    shrd rax, rdx, 32
    add rax, [r10]
    cmp r9, [rcx]
    jne 5b
    add rax, r8
    jns 6f                                      // before 1970: the kernel has no such time either
    xor eax, eax
6:  xor edx, edx
    mov r9d, 1000000000
    div r9
    ret

    .org deposed_clock_code + {size}
    .popsection
"#,
    size = const CODE_SIZE,
);

// SAFETY: the assembler fills the section above up to exactly this size, and nothing writes there.
unsafe extern "C" {
    #[link_name = "deposed_clock_code"]
    safe static CODE: [u8; CODE_SIZE];
}

/// The code, for a cell at an address of the process it is copied to, and where in it each of
/// [`FUNCTIONS`] begins.
pub(in crate::vdso) fn code(cell: u64) -> (Vec<u8>, [u64; FUNCTIONS.len()]) {
    let mut code = CODE.to_vec();
    let entry = |index: usize| {
        let at = 8 + 4 * index;
        u64::from(u32::from_le_bytes([code[at], code[at + 1], code[at + 2], code[at + 3]]))
    };
    let entries = std::array::from_fn(entry);
    code[..8].copy_from_slice(&cell.to_le_bytes());
    (code, entries)
}

/// A jump to an address. It uses rax, which no function is given anything in.
pub(in crate::vdso) fn jump(to: u64) -> [u8; JUMP] {
    let mut bytes = [0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0];
    bytes[2..10].copy_from_slice(&to.to_le_bytes());
    bytes
}

/// Where a [`jump`] goes, if these bytes begin with one.
pub(in crate::vdso) fn jump_target(bytes: &[u8]) -> Option<u64> {
    let to = u64::from_le_bytes(bytes.get(2..10)?.try_into().ok()?);
    bytes.starts_with(&jump(to)).then_some(to)
}

/// Makes a stopped thread enter the kernel, by the instruction at an address.
pub(in crate::vdso) fn prepare_system_call(
    registers: &mut Registers,
    instruction: u64,
    number: libc::c_long,
    arguments: [u64; 6],
) {
    // Not in a system call: the kernel is not to begin an interrupted one again.
    registers.orig_rax = u64::MAX;
    registers.rip = instruction;
    registers.rax = number as u64;
    [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] =
        arguments;
}

/// Makes a stopped thread call a function, on a stack that ends at a page's end, to return to an
/// address, which belongs where [`return_on_stack`] says.
pub(in crate::vdso) fn prepare_call(
    registers: &mut Registers,
    function: u64,
    arguments: [u64; 2],
    stack_end: u64,
    _return_to: u64,
) {
    const DIRECTION_FLAG: u64 = 1 << 10;
    registers.orig_rax = u64::MAX;
    registers.rip = function;
    registers.rsp = stack_end - 8;
    // String instructions count upwards in every function.
    registers.eflags &= !DIRECTION_FLAG;
    [registers.rdi, registers.rsi] = arguments;
}

/// Where on such a stack a call leaves its return address, if not in a register.
pub(in crate::vdso) fn return_on_stack(stack_end: u64) -> Option<u64> {
    Some(stack_end - 8)
}

/// What a system call or function returned.
pub(in crate::vdso) fn returned(registers: &Registers) -> i64 {
    registers.rax as i64
}

/// Where a thread is, and where its stack ends.
pub(in crate::vdso) fn position(registers: &Registers) -> (u64, u64) {
    (registers.rip, registers.rsp)
}

/// Whether a word of a stack, followed by others, is where a signal interrupted the thread: the kernel
/// saves the flags and the code segment right behind it.
pub(in crate::vdso) fn is_saved_position(words: &[u64]) -> bool {
    const USER_CODE_SEGMENT: u64 = 0x33;
    const FLAGS: u64 = (1 << 22) - 1;
    const ALWAYS_SET: u64 = 1 << 1;
    matches!(words, [_, flags, segments, ..]
        if flags & !FLAGS == 0
            && flags & ALWAYS_SET != 0
            && segments & 0xffff == USER_CODE_SEGMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A jump is recognised by where it goes, and other code is not one.
    #[test]
    fn jumps_are_recognised() {
        assert_eq!(jump_target(&jump(0x7f12_3456_789a)), Some(0x7f12_3456_789a));
        assert_eq!(jump_target(&[0x55, 0x48, 0x89, 0xe5, 0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(jump_target(&[0x48]), None);
    }

    /// The code knows its cell, and its functions begin inside of it.
    #[test]
    fn code_is_whole() {
        let (code, entries) = code(0x1234);
        assert_eq!(code[..8], 0x1234_u64.to_le_bytes());
        assert!(entries.iter().all(|entry| (24..CODE_SIZE as u64).contains(entry)));
    }
}
