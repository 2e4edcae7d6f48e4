//! How a detached lab comes and goes.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::{dup2_stdout, setsid};

use super::{DIRECTORY, DetachedLab, DetachedNode, Health, check_name, find};
use crate::error::{LabError, chain};
use crate::hub::Hub;
use crate::lab::Lab;
use crate::packages::{lab_requirements, missing};
use crate::process::Process;
use crate::role;
use crate::spec::LabSpec;

/// Brings up a lab that outlives this process; it answers SSH when this returns.
pub fn up(name: &str, spec: &LabSpec) -> Result<DetachedLab, LabError> {
    check_name(name)?;
    spec.check()?;
    if !nix::unistd::geteuid().is_root() {
        return Err(LabError::NotRoot);
    }
    let missing = missing(&lab_requirements(spec));
    if !missing.is_empty() {
        return Err(LabError::MissingTools { missing });
    }
    let directory = Path::new(DIRECTORY).join(name);
    let turn = turn()?;
    if directory.exists() {
        if find(name).is_ok_and(|lab| lab.health() != Health::Crashed) {
            return Err(LabError::AlreadyUp { name: name.into() });
        }
        remove(name)?;
    }
    fs::create_dir(&directory).map_err(|error| LabError::path("create", &directory, error))?;
    let result = launch(name, &directory, spec, turn);
    if result.is_err() {
        let _ = fs::remove_dir_all(&directory);
    }
    result
}

fn launch(
    name: &str,
    directory: &Path,
    spec: &LabSpec,
    turn: Flock<File>,
) -> Result<DetachedLab, LabError> {
    let log_path = directory.join("hub.log");
    let log =
        File::create(&log_path).map_err(|error| LabError::path("create", &log_path, error))?;
    let mut hub = Command::new(&spec.program)
        .args([role::HUB, name])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(|error| LabError::path("start the hub, which is", &spec.program, error))?;
    // It waits for its orders: until they are sent nothing can go wrong with it, and from here on it is found.
    let (Some(mut orders), Some(answers), Some(process)) =
        (hub.stdin.take(), hub.stdout.take(), Process::of(hub.id() as i32))
    else {
        return Err(LabError::io("talk to the hub", io::Error::other("it ended at once")));
    };
    DetachedLab { name: name.into(), hub: process, nodes: Vec::new() }.save()?;
    drop(turn);
    let spec = LabSpec { directory: Some(directory.into()), ..spec.clone() };
    let line = serde_json::to_string(&spec)
        .map_err(|error| LabError::io("describe the lab", io::Error::from(error)))?;
    let mut answer = String::new();
    orders
        .write_all((line + "\n").as_bytes())
        .and_then(|()| BufReader::new(answers).read_line(&mut answer))
        .map_err(|error| LabError::io("talk to the hub", error))?;
    match serde_json::from_str::<Result<DetachedLab, String>>(&answer) {
        Ok(Ok(lab)) => Ok(lab),
        Ok(Err(message)) => {
            // It has said its last word; when it has ended there is nothing of the lab any more.
            let _ = hub.wait();
            Err(LabError::Hub(message))
        }
        Err(_) => {
            let _ = hub.kill().and_then(|()| hub.wait());
            let log = fs::read_to_string(&log_path).unwrap_or_default();
            Err(LabError::Hub(format!(
                "the lab's hub ended without a word; its log: {:?}",
                log.trim()
            )))
        }
    }
}

/// Plays the process in the background: brings the lab up, says so, and holds it.
pub(crate) fn play_hub() -> ! {
    let brought_up = serve();
    let answer = brought_up.as_ref().map(|(_, state)| state).map_err(|error| chain(error));
    let line = serde_json::to_string(&answer).unwrap_or_default() + "\n";
    let told = io::stdout().write_all(line.as_bytes()).and_then(|()| io::stdout().flush());
    let Ok((lab, state)) = brought_up else { std::process::exit(1) };
    if told.is_err() {
        // Whoever asked for the lab has gone meanwhile: nobody knows that it is there.
        drop(lab);
        let _ = name_argument().and_then(|name| remove(&name));
        std::process::exit(1);
    }
    // Let go of the pipe, lest someone waits for its end.
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = dup2_stdout(null.as_fd());
    }
    loop {
        lab.wait_for_boot();
        // A failure leaves the node told as dead, which is wrong and hurts nobody.
        let _ = state_of(&state.name, &lab).and_then(|state| state.save());
    }
}

fn serve() -> Result<(Lab, DetachedLab), LabError> {
    // Out of the terminal's reach, so that its Ctrl-C or its end is not the lab's.
    setsid().map_err(|error| LabError::io("start a session", error))?;
    let mut orders = String::new();
    io::stdin()
        .lock()
        .read_line(&mut orders)
        .map_err(|error| LabError::io("read what lab to bring up", error))?;
    let spec: LabSpec = serde_json::from_str(&orders)
        .map_err(|error| LabError::io("read what lab to bring up", io::Error::from(error)))?;
    let name = name_argument()?;
    let hub = Hub::enter()?;
    let lab = Lab::up(&hub, &spec)?;
    let state = state_of(&name, &lab)?;
    state.save()?;
    Ok((lab, state))
}

/// What others are to know of this process's lab.
fn state_of(name: &str, lab: &Lab) -> Result<DetachedLab, LabError> {
    let nodes = lab.nodes().into_iter().map(|node| DetachedNode {
        name: node.name(),
        v4: node.v4(),
        init: Process::of(node.pid()),
    });
    let own = std::process::id();
    let hub = Process::of(own as i32)
        .ok_or_else(|| LabError::Hub(format!("process {own} cannot be seen in /proc")))?;
    Ok(DetachedLab { name: name.into(), hub, nodes: nodes.collect() })
}

fn name_argument() -> Result<String, LabError> {
    std::env::args()
        .nth(2)
        .ok_or_else(|| LabError::Hub("the hub was started without a name".into()))
}

/// Takes a lab down, or clears what is left of one that crashed. Tells how it was found.
pub fn down(name: &str) -> Result<Health, LabError> {
    check_name(name)?;
    if !nix::unistd::geteuid().is_root() {
        return Err(LabError::NotRoot);
    }
    if !Path::new(DIRECTORY).join(name).exists() {
        return Err(LabError::NotUp { name: name.into() });
    }
    let _turn = turn()?;
    let health = find(name).map_or(Health::Crashed, |lab| lab.health());
    remove(name)?;
    Ok(health)
}

/// Kills what lives of a lab and removes its directory.
fn remove(name: &str) -> Result<(), LabError> {
    let directory = Path::new(DIRECTORY).join(name);
    if let Ok(lab) = find(name) {
        let mut processes = vec![&lab.hub];
        processes.extend(lab.nodes.iter().filter_map(|node| node.init.as_ref()));
        // The hub's end is that of the nodes; they are killed too in case it did not live to see them.
        let others = || processes.iter().filter(|process| process.pid != std::process::id() as i32);
        others().for_each(|process| process.kill());
        if let Some(left) = others().find(|process| !process.ended()) {
            return Err(LabError::Hub(format!(
                "process {} of lab {name:?} does not end",
                left.pid
            )));
        }
    }
    fs::remove_dir_all(&directory).map_err(|error| LabError::path("remove", &directory, error))
}

/// Waits for our turn to change the set of labs. The turn ends when the value is dropped.
fn turn() -> Result<Flock<File>, LabError> {
    fs::create_dir_all(DIRECTORY).map_err(|error| LabError::path("create", DIRECTORY, error))?;
    let directory =
        File::open(DIRECTORY).map_err(|error| LabError::path("open", DIRECTORY, error))?;
    Flock::lock(directory, FlockArg::LockExclusive)
        .map_err(|(_, errno)| LabError::path("lock", DIRECTORY, errno))
}
