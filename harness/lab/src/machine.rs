//! The machine of a node: what stays while its node is frozen, loses its power, and boots again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::address::node_name;
use crate::cable;
use crate::control_group::{self, ControlGroup};
use crate::disks::Disks;
use crate::error::{LabError, chain};
use crate::init::Boot;
use crate::ip;
use crate::node::{BOOT_LIMIT, Node, wait_greets};
use crate::power_loss::{self, Loss, PowerLoss};
use crate::process_space::ProcessSpace;
use crate::spec::DATA_DIR;
use crate::sweeper::{Note, Sweeper};

/// How long the processes of a node that lost its power may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// How often to look whether they are.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How long to wait before a machine is released once more that could not be when its time was over.
const RELEASE_AGAIN: Duration = Duration::from_secs(2);

/// In what a machine can be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hold {
    /// Nothing in it runs.
    Frozen,
    /// It has no power.
    Off,
}

/// What can be seen of a machine from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// In what it is held, if it is.
    pub held: Option<Hold>,
    /// Its processes by their numbers on this host: how often the threads of each were ever switched off a
    /// processor.
    pub processes: BTreeMap<u32, u64>,
    /// What its last loss of power took.
    pub loss: Option<Loss>,
}

/// The machine of one node.
#[derive(Debug)]
pub(crate) struct Machine {
    program: PathBuf,
    directory: PathBuf,
    boot: Boot,
    disks: Disks,
    /// `None` while it has no power.
    pub(crate) node: Option<Node>,
    /// Or why there is none.
    group: Result<ControlGroup, String>,
    sweeper: Arc<Sweeper>,
    /// The processes of its last boot.
    space: Option<ProcessSpace>,
    /// In what it is held, and until when.
    held: Option<(Hold, Instant)>,
    loss: Option<Loss>,
}

impl Machine {
    /// A machine that has not been booted yet; `boot` lacks only its disks.
    pub(crate) fn new(
        program: &Path,
        directory: &Path,
        boot: Boot,
        disks: Disks,
        sweeper: Arc<Sweeper>,
    ) -> Machine {
        let boot =
            Boot { root_device: disks.root().into(), data_device: disks.data().into(), ..boot };
        // Not like those that faults make: every process of the node is in it.
        let name = format!("deposed.lab-{}-{}", sweeper.name(), node_name(boot.index));
        let group = control_group::place(&name).and_then(|folder| {
            // First, for it stays if nobody removes it.
            sweeper.note(&Note::Group(folder.clone()));
            ControlGroup::make(folder)
        });
        let group = group.map_err(|error| chain(&error));
        Machine {
            program: program.into(),
            directory: directory.into(),
            boot,
            disks,
            group,
            sweeper,
            node: None,
            space: None,
            held: None,
            loss: None,
        }
    }

    /// Which node, 1-based.
    pub(crate) const fn index(&self) -> u8 {
        self.boot.index
    }

    /// Process number of its node's init on this host; 0 while it has no power.
    pub(crate) fn pid(&self) -> i32 {
        self.node.as_ref().map_or(0, Node::pid)
    }

    /// Starts to boot. Returns at once.
    pub(crate) fn start(&mut self) -> Result<(), LabError> {
        let log = self.directory.join(format!("{}.log", node_name(self.boot.index)));
        let group = self.group.as_ref().ok().map(|group| group.folder().into());
        self.node = Some(Node::start(&self.program, self.boot.clone(), group, log)?);
        Ok(())
    }

    /// Waits until the namespaces of its node exist. Returns the lines for ip(8) that plug it in.
    pub(crate) fn wait_isolated(&mut self, deadline: Instant) -> Result<Vec<String>, LabError> {
        let index = self.boot.index;
        let Some(node) = self.node.as_mut() else { return Ok(Vec::new()) };
        node.wait_isolated(deadline)?;
        self.sweeper.note(&Note::Init(node.pid()));
        self.space = Some(ProcessSpace::of(node.pid())?);
        Ok(cable::plug(index, node.pid()))
    }

    /// Boots from start to sshd's greeting.
    fn boot(&mut self) -> Result<(), LabError> {
        self.power_off();
        self.disks.wait_free()?;
        let deadline = Instant::now() + BOOT_LIMIT;
        self.start()?;
        let cable = self.wait_isolated(deadline)?;
        ip::batch(&cable)?;
        let Some(node) = self.node.as_mut() else { return Ok(()) };
        node.plugged()?;
        node.wait_answers(deadline)
    }

    /// Kills every process of its node at once, and pulls its cable out.
    pub(crate) fn power_off(&mut self) {
        if let Some(mut node) = self.node.take() {
            node.kill();
            drop(node);
            // It may have gone with the node's network already.
            let _ = ip::batch(&[cable::unplug(self.boot.index)]);
        }
    }

    /// Ends its node, which is not booted any more.
    pub(crate) fn end(&mut self) {
        self.held = None;
        self.node = None;
    }

    /// Why it cannot be held so, if it cannot.
    pub(crate) fn check(&self, how: Hold) -> Result<(), LabError> {
        match (how, &self.group) {
            (Hold::Off, _) | (Hold::Frozen, Ok(_)) => Ok(()),
            (Hold::Frozen, Err(reason)) => {
                let name = node_name(self.boot.index);
                Err(LabError::Warden(format!(
                    "{name} cannot be frozen: this host has no control groups of version 2 for it ({reason})"
                )))
            }
        }
    }

    /// Holds it for so long, or for so long again. A node that was off runs `start` when it has booted.
    pub(crate) fn hold(
        &mut self,
        how: Hold,
        ttl: Duration,
        start: Option<String>,
    ) -> Result<(), LabError> {
        self.check(how)?;
        let name = node_name(self.boot.index);
        match self.held {
            Some((held, _)) if held == how => return self.renew(ttl),
            Some((held, _)) => {
                return Err(LabError::Warden(format!("{name} is held already: {held:?}")));
            }
            None if self.processes().is_empty() => {
                return Err(LabError::Warden(format!("{name} does not run")));
            }
            // Before anything is done, so that whatever comes of it, it is undone in time.
            None => self.held = Some((how, Instant::now() + ttl)),
        }
        let done = match how {
            Hold::Frozen => self.group.as_ref().map_or(Ok(()), |group| group.freeze(true)),
            Hold::Off => {
                self.boot.start = start;
                self.lose_power()
            }
        };
        if done.is_err() {
            self.release()?;
        }
        done
    }

    /// Holds it for another while.
    pub(crate) fn renew(&mut self, ttl: Duration) -> Result<(), LabError> {
        let Some((_, until)) = &mut self.held else {
            let name = node_name(self.boot.index);
            return Err(LabError::Warden(format!("{name} is not held any more")));
        };
        *until = Instant::now() + ttl;
        Ok(())
    }

    /// Cuts its power, disk and all.
    fn lose_power(&mut self) -> Result<(), LabError> {
        let name = node_name(self.boot.index);
        self.loss = None;
        let data = format!("/proc/{}/root{DATA_DIR}", self.pid());
        let power = PowerLoss::prepare(Path::new(&data))?;
        self.power_off();
        let end = Instant::now() + GONE_WITHIN;
        while !self.processes().is_empty() {
            if Instant::now() > end {
                let left = self.processes().into_keys().collect::<Vec<_>>();
                return Err(LabError::Warden(format!("processes of {name} do not end: {left:?}")));
            }
            thread::sleep(LOOK_EVERY);
        }
        power.strike()?;
        self.disks.wait_free()?;
        let point = self.directory.join(format!("disk-{name}"));
        self.loss = Some(power_loss::look(self.disks.data(), &point)?);
        self.disks.wait_free()
    }

    /// What can be seen of it.
    pub(crate) fn look(&self) -> View {
        View { held: self.held.map(|(how, _)| how), processes: self.processes(), loss: self.loss }
    }

    fn processes(&self) -> BTreeMap<u32, u64> {
        self.space.as_ref().map_or_else(BTreeMap::new, ProcessSpace::processes)
    }

    /// Lets it go on, or boots it if it has no power or its node has died. Returns when it answers; says
    /// whether it was booted.
    pub(crate) fn release(&mut self) -> Result<bool, LabError> {
        if let Ok(group) = &self.group
            && group.is_frozen()
        {
            group.freeze(false)?;
        }
        let booted = self.processes().is_empty();
        if booted {
            self.boot()?;
        } else {
            wait_greets(self.boot.index, Instant::now() + BOOT_LIMIT)?;
        }
        self.boot.start = None;
        self.held = None;
        Ok(booted)
    }

    /// Whether its time is over.
    pub(crate) fn is_due(&self) -> bool {
        self.held.is_some_and(|(_, until)| until <= Instant::now())
    }

    /// Releases it if its time is over. Says whether it was booted.
    pub(crate) fn release_if_due(&mut self) -> bool {
        if !self.is_due() {
            return false;
        }
        match self.release() {
            Ok(booted) => booted,
            Err(_) => {
                // It is tried again, and whoever looks sees that it is still held.
                if let Some((_, until)) = &mut self.held {
                    *until = Instant::now() + RELEASE_AGAIN;
                }
                false
            }
        }
    }
}
