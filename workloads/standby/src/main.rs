//! The `standbyd` binary.

fn main() -> std::process::ExitCode {
    deposed_standby::main(std::env::args_os())
}
