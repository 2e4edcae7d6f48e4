//! The program that is put on each node. Its roles are for deposed, not for people:
//! `serve`, `keep`, `hold NAME`, `heal`, and `ready`, which does nothing but show that it runs here.

use std::io::Write;
use std::process::ExitCode;

use deposed_agent::{Agent, Failure, Home, heal, keep, serve};

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let home = match words.first().map(String::as_str) {
        Some("--home") if words.len() > 2 => {
            let folders: Vec<String> = words.drain(..3).skip(1).collect();
            Home::new(&folders[0], &folders[1])
        }
        _ => Home::default(),
    };
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => serve(&home, std::io::stdin().lock(), std::io::stdout().lock())
            .map_err(|error| Failure::new("speak to the controller", error)),
        ["keep"] => keep(&home),
        ["hold", name] => Agent::new(home).hold(name),
        ["heal"] => heal(&home),
        ["ready"] => Ok(()),
        _ => Err(Failure::new("start", "its roles are serve, keep, hold NAME, heal and ready")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "{failure}");
            ExitCode::FAILURE
        }
    }
}
