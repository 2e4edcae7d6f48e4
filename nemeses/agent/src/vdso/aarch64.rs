//! AArch64.

#![expect(
    unsafe_code,
    reason = "what a patched process runs is written in the processor's language"
)]

pub(in crate::vdso) use libc::user_regs_struct as Registers;

/// The functions of the vDSO that tell the time of day. The order is that of [`code`].
pub(in crate::vdso) const FUNCTIONS: [&str; 2] =
    ["__kernel_clock_gettime", "__kernel_gettimeofday"];

/// The instruction that enters the kernel: `svc #0`.
pub(in crate::vdso) const SYSTEM_CALL: &[u8] = &[0x01, 0x00, 0x00, 0xd4];

/// Instructions lie at multiples of this many bytes.
pub(in crate::vdso) const ALIGNMENT: usize = 4;

/// The instruction that stops a process for its tracer: `brk #0`.
pub(in crate::vdso) const BREAKPOINT: &[u8] = &[0x00, 0x00, 0x20, 0xd4];

/// Length of a [`jump`].
pub(in crate::vdso) const JUMP: usize = 16;

const CODE_SIZE: usize = 512;

// What patched functions run. It is copied into another process, so it refers to nothing outside.
// Like the functions it stands for it may use x0 to x17.
//
// The cell is described where the code for x86-64 is.
std::arch::global_asm!(
    r#"
    .pushsection .rodata.deposed_clock, "a", @progbits
    .balign 8
    .globl deposed_clock_code
deposed_clock_code:
    .quad 0                                     // the address of the cell
    .long .Ldeposed_gettime - deposed_clock_code
    .long .Ldeposed_gettimeofday - deposed_clock_code

.Ldeposed_gettime:                              // w0: clock, x1: struct timespec
    mov w9, w0
    mov x8, #113                                // clock_gettime
    svc #0
    cbnz x0, 2f
    cbz w9, 1f                                  // CLOCK_REALTIME
    cmp w9, #5                                  // CLOCK_REALTIME_COARSE
    b.eq 1f
    cmp w9, #11                                 // CLOCK_TAI
    b.ne 2f
1:  ldp x10, x11, [x1]
    mov x12, #0xca00                            // 1000000000
    movk x12, #0x3b9a, lsl #16
    madd x10, x10, x12, x11
    mov x15, x30
    bl .Ldeposed_move
    mov x30, x15
    stp x10, x11, [x1]
    mov x0, #0
2:  ret

.Ldeposed_gettimeofday:                         // x0: struct timeval or null, x1: time zone
    mov x7, x0
    mov x8, #169                                // gettimeofday
    svc #0
    cbnz x0, 3f
    cbz x7, 3f
    ldp x10, x11, [x7]
    mov x12, #0xca00
    movk x12, #0x3b9a, lsl #16
    mov x13, #1000
    mul x11, x11, x13
    madd x10, x10, x12, x11
    mov x15, x30
    bl .Ldeposed_move
    mov x30, x15
    mov x13, #1000
    udiv x11, x11, x13
    stp x10, x11, [x7]
    mov x0, #0
3:  ret

.Ldeposed_move:                                 // x10: the kernel's time in ns; then x10: s, x11: ns
    adr x16, deposed_clock_code
    ldr x16, [x16]
4:  ldar x17, [x16]
    add x14, x16, x17, lsl #5
    ldp x11, x12, [x14, #64]
    ldr x13, [x14, #80]
    dmb ishld
    ldr x9, [x16]
    cmp x9, x17
    b.ne 4b
    sub x12, x10, x12
    mul x9, x12, x13
    smulh x12, x12, x13
    extr x9, x12, x9, #32
    add x10, x10, x9
    adds x10, x10, x11
    csel x10, x10, xzr, pl                      // before 1970: the kernel has no such time either
    mov x12, #0xca00
    movk x12, #0x3b9a, lsl #16
    udiv x9, x10, x12
    msub x11, x9, x12, x10
    mov x10, x9
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

/// `ldr x16, #8; br x16`, before the address.
const LOAD_AND_BRANCH: [u8; 8] = [0x50, 0x00, 0x00, 0x58, 0x00, 0x02, 0x1f, 0xd6];

/// A jump to an address. It uses x16, which is there for that.
pub(in crate::vdso) fn jump(to: u64) -> [u8; JUMP] {
    let mut bytes = [0; JUMP];
    bytes[..8].copy_from_slice(&LOAD_AND_BRANCH);
    bytes[8..].copy_from_slice(&to.to_le_bytes());
    bytes
}

/// Where a [`jump`] goes, if these bytes begin with one.
pub(in crate::vdso) fn jump_target(bytes: &[u8]) -> Option<u64> {
    let to = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    bytes.starts_with(&jump(to)).then_some(to)
}

/// Makes a stopped thread enter the kernel, by the instruction at an address.
pub(in crate::vdso) fn prepare_system_call(
    registers: &mut Registers,
    instruction: u64,
    number: libc::c_long,
    arguments: [u64; 6],
) {
    registers.pc = instruction;
    registers.regs[8] = number as u64;
    registers.regs[..6].copy_from_slice(&arguments);
}

/// Makes a stopped thread call a function, on a stack that ends at a page's end, to return to an
/// address, which belongs where [`return_on_stack`] says.
pub(in crate::vdso) fn prepare_call(
    registers: &mut Registers,
    function: u64,
    arguments: [u64; 2],
    stack_end: u64,
    return_to: u64,
) {
    registers.pc = function;
    registers.sp = stack_end;
    registers.regs[30] = return_to;
    registers.regs[..2].copy_from_slice(&arguments);
}

/// Where on such a stack a call leaves its return address, if not in a register.
pub(in crate::vdso) fn return_on_stack(_stack_end: u64) -> Option<u64> {
    None
}

/// What a system call or function returned.
pub(in crate::vdso) fn returned(registers: &Registers) -> i64 {
    registers.regs[0] as i64
}

/// Where a thread is, and where its stack ends.
pub(in crate::vdso) fn position(registers: &Registers) -> (u64, u64) {
    (registers.pc, registers.sp)
}

/// Whether a word of a stack, followed by others, is where a signal interrupted the thread: the kernel
/// saves the processor's state, that of a 64-bit program, right behind it.
pub(in crate::vdso) fn is_saved_position(words: &[u64]) -> bool {
    const MODE: u64 = 0x1f;
    matches!(words, [_, state, ..] if state >> 32 == 0 && state & MODE == 0)
}
