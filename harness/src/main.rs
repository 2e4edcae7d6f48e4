//! The `deposed` binary.

fn main() -> std::process::ExitCode {
    deposed::cli::main()
}
