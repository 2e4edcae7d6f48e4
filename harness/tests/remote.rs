//! Commands and files on a real SSH server.

#![expect(clippy::unwrap_used, reason = "clippy excuses test functions alone")]

mod sshd;

use std::path::Path;
use std::time::{Duration, Instant};

use deposed::inventory::{HostKeyPolicy, NodeSpec, Secret, Sudo};
use deposed::remote::SshRemote;
use deposed_core::{Command, Remote, RemoteError};
use sshd::Sshd;

async fn connect(spec: &NodeSpec) -> SshRemote {
    SshRemote::connect(spec).await.unwrap()
}

/// The reason why a connection was refused.
async fn refused(spec: &NodeSpec) -> String {
    match SshRemote::connect(spec).await {
        Ok(_) => panic!("it connected"),
        Err(RemoteError::Connect { reason, .. }) => reason,
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_command_answers_with_its_status_and_both_outputs() {
    let sshd = Sshd::start();
    let remote = connect(&sshd.spec()).await;
    let output = remote.exec(Command::new("cat; echo err >&2; exit 3").stdin("in")).await.unwrap();
    assert_eq!((output.status, &*output.stdout, &*output.stderr), (3, &b"in"[..], &b"err\n"[..]));
    for (script, status) in
        [("kill -9 $$", 137), ("kill -TERM $$", 143), ("sh -c 'kill -HUP $$'", 129)]
    {
        assert_eq!(remote.exec(Command::new(script)).await.unwrap().status, status, "{script}");
    }
    let error = remote.run(Command::new("echo why >&2; exit 4")).await.unwrap_err();
    assert!(matches!(error, RemoteError::Exit { status: 4, .. }), "{error}");
}

#[tokio::test]
async fn eight_megabytes_on_every_stream_do_not_block() {
    let sshd = Sshd::start();
    let remote = connect(&sshd.spec()).await;
    let bytes: Vec<u8> =
        (0..8u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let output = remote.exec(Command::new("tee /dev/stderr").stdin(bytes.clone())).await.unwrap();
    assert!(output.stdout == bytes && output.stderr == bytes);
}

#[tokio::test]
async fn files_travel_whole_with_mode_and_parents() {
    let sshd = Sshd::start();
    let remote = connect(&sshd.spec()).await;
    let there = sshd.path("deep/er/it's a file");
    let back = sshd.path("back/copy");
    let small = b"#!/bin/sh\necho \0 ran\n".to_vec();
    let large: Vec<u8> =
        (0..9u32 << 20).map(|i| (i.wrapping_mul(2_246_822_519) >> 24) as u8).collect();
    for (bytes, mode) in [(&small, 0o755), (&large, 0o600), (&Vec::new(), 0o644)] {
        remote.upload(bytes, there.to_str().unwrap(), mode).await.unwrap();
        let found = std::fs::metadata(&there).unwrap();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o7777, mode);
        remote.download(there.to_str().unwrap(), &back).await.unwrap();
        assert!(std::fs::read(&back).unwrap() == *bytes);
    }
    assert_eq!(std::fs::read_dir(there.parent().unwrap()).unwrap().count(), 1, "leftovers");
    assert_eq!(std::fs::read_dir(back.parent().unwrap()).unwrap().count(), 1, "leftovers");
    let error = remote.download("/no/such", Path::new(&back)).await.unwrap_err();
    assert!(error.to_string().contains("No such file"), "{error}");
    let error = remote.upload(b"", "/proc/no", 0o644).await.unwrap_err();
    assert!(matches!(error, RemoteError::Transfer { .. }), "{error}");
}

#[tokio::test]
async fn a_deadline_kills_the_command_on_the_node() {
    let sshd = Sshd::start();
    let remote = connect(&sshd.spec()).await;
    let pid = sshd.path("pid");
    let script = format!("sleep 60 & echo $! >{}; wait", pid.display());
    let began = Instant::now();
    let error =
        remote.exec(Command::new(script).deadline(Duration::from_secs(1))).await.unwrap_err();
    assert!(matches!(error, RemoteError::Deadline { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    let pid = std::fs::read_to_string(pid).unwrap();
    let end = Instant::now() + Duration::from_secs(2);
    while is_running(pid.trim()) {
        assert!(Instant::now() < end, "the child lives");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(remote.run(Command::new("echo on")).await.unwrap(), "on");
}

/// Whether a process is there and not a corpse that nobody has buried yet.
fn is_running(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

#[tokio::test]
async fn a_frozen_node_is_a_deadline_and_not_a_hang() {
    let sshd = Sshd::start();
    let remote = connect(&sshd.spec()).await;
    sshd.signal_all("-STOP");
    let began = Instant::now();
    let two_seconds = Duration::from_secs(2);
    let error = remote.exec(Command::new("true").deadline(two_seconds)).await.unwrap_err();
    assert!(matches!(error, RemoteError::Deadline { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_millis(3500), "{:?}", began.elapsed());
    sshd.signal_all("-CONT");
    assert_eq!(remote.run(Command::new("echo back")).await.unwrap(), "back");
}

#[tokio::test]
async fn a_lost_connection_is_an_error_and_only_an_idempotent_command_is_sent_again() {
    let sshd = Sshd::start();
    let remote = std::sync::Arc::new(connect(&sshd.spec()).await);
    for (idempotent, runs_expected) in [(false, 1), (true, 2)] {
        let runs = sshd.path(&format!("runs-{idempotent}"));
        let again = format!("[ $(wc -l <{}) = 2 ] && echo done && exit", runs.display());
        let script = format!("echo run >>{}; {again}; sleep 30", runs.display());
        let mut command = Command::new(script);
        command.idempotent = idempotent;
        let call = tokio::spawn({
            let remote = remote.clone();
            async move { remote.run(command).await }
        });
        let end = Instant::now() + Duration::from_secs(10);
        while !runs.exists() {
            assert!(Instant::now() < end);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        sshd.signal_sessions("-KILL");
        let result = call.await.unwrap();
        match idempotent {
            true => assert_eq!(result.unwrap(), "done"),
            false => assert!(matches!(result, Err(RemoteError::Lost { .. })), "{result:?}"),
        }
        assert_eq!(std::fs::read_to_string(runs).unwrap().lines().count(), runs_expected);
        assert_eq!(remote.run(Command::new("echo on")).await.unwrap(), "on");
    }
}

#[tokio::test]
async fn a_connection_that_died_while_idle_is_replaced_before_anything_is_sent() {
    let sshd = Sshd::start();
    let remote = connect(&sshd.spec()).await;
    for pause in [0, 100, 1100] {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        sshd.signal_sessions("-KILL");
        while !sshd.sessions().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(remote.run(Command::new("echo once")).await.unwrap(), "once");
    }
}

#[tokio::test]
async fn forty_commands_at_once_share_a_few_connections() {
    let sshd = Sshd::start();
    let remote = connect(&sshd.spec()).await;
    let began = Instant::now();
    let calls: Vec<_> =
        (0..40).map(|i| remote.run(Command::new(format!("sleep 0.25; echo {i}")))).collect();
    let mut calls = Vec::from_iter(calls.into_iter().map(Box::pin));
    let mut answers = vec![String::new(); 40];
    std::future::poll_fn(|cx| {
        let mut pending = false;
        for (call, answer) in calls.iter_mut().zip(&mut answers) {
            if answer.is_empty() {
                match call.as_mut().poll(cx) {
                    std::task::Poll::Ready(result) => *answer = result.unwrap(),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    assert_eq!(answers, (0..40).map(|i| i.to_string()).collect::<Vec<_>>());
    println!("40 commands of 0.25 s: {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_unknown_host_key_is_refused_or_learnt_or_ignored_as_told() {
    let sshd = Sshd::start();
    let mut spec = sshd.spec();
    let known_hosts = sshd.path("folder/known_hosts");
    spec.known_hosts = vec![known_hosts.clone()];
    let listed = std::process::Command::new("ssh-keygen")
        .arg("-lf")
        .arg(sshd.path("host_key.pub"))
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let fingerprint = listed.split(' ').nth(1).unwrap();

    let reason = refused(&spec).await;
    assert!(reason.contains(fingerprint) && reason.contains("ssh-keyscan"), "{reason}");
    assert!(!known_hosts.exists());

    spec.host_keys = HostKeyPolicy::Off;
    let remote = connect(&spec).await;
    assert_eq!(remote.fingerprint().unwrap().to_string(), format!("ssh-ed25519 {fingerprint}"));
    assert!(!known_hosts.exists());

    spec.host_keys = HostKeyPolicy::AcceptNew;
    connect(&spec).await;
    assert_eq!(std::fs::read_to_string(&known_hosts).unwrap().lines().count(), 1);
    spec.host_keys = HostKeyPolicy::Strict;
    connect(&spec).await;
}

#[tokio::test]
async fn a_changed_host_key_is_refused_even_when_new_ones_are_accepted() {
    let sshd = Sshd::start();
    let mut spec = sshd.spec();
    let other = std::fs::read_to_string(sshd.path("other_key.pub")).unwrap();
    std::fs::write(&spec.known_hosts[0], format!("[127.0.0.1]:{} {other}", sshd.port)).unwrap();
    for policy in [HostKeyPolicy::Strict, HostKeyPolicy::AcceptNew] {
        spec.host_keys = policy;
        match SshRemote::connect(&spec).await.err().expect("refused") {
            RemoteError::HostKeyChanged { reason, .. } => {
                assert!(
                    reason.contains("HAS CHANGED") && reason.contains("ssh-keygen -R"),
                    "{reason}"
                );
            }
            error => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn the_server_is_asked_for_the_kind_of_host_key_that_is_known() {
    let sshd = Sshd::start();
    let spec = sshd.spec();
    let key = std::fs::read_to_string(sshd.path("ecdsa_host_key.pub")).unwrap();
    std::fs::write(&spec.known_hosts[0], format!("[127.0.0.1]:{} {key}", sshd.port)).unwrap();
    let fingerprint = connect(&spec).await.fingerprint().unwrap();
    assert_eq!(fingerprint.algorithm, "ecdsa-sha2-nistp256");
}

#[tokio::test]
async fn a_node_is_reached_by_ipv6() {
    let sshd = Sshd::start();
    let mut spec = sshd.spec();
    spec.node.addr = "::1".parse().unwrap();
    spec.host = "::1".to_owned();
    let reason = refused(&spec).await;
    assert!(reason.contains("is not known"), "{reason}");
    spec.host_keys = HostKeyPolicy::AcceptNew;
    connect(&spec).await;
    spec.host_keys = HostKeyPolicy::Strict;
    assert_eq!(connect(&spec).await.run(Command::new("echo in")).await.unwrap(), "in");
}

#[tokio::test]
async fn a_wrong_key_is_named_with_what_was_tried() {
    let sshd = Sshd::start();
    let mut spec = sshd.spec();
    spec.keys = vec![sshd.path("other_key"), sshd.path("missing"), sshd.path("host_key.pub")];
    let reason = refused(&spec).await;
    for part in
        ["other_key (refused)", "missing (cannot be read", "host_key.pub (is not a private key"]
    {
        assert!(reason.contains(part), "{part} in {reason}");
    }
    spec.keys = Vec::new();
    assert!(refused(&spec).await.contains("nothing to try"));
}

#[tokio::test]
async fn an_encrypted_key_needs_its_passphrase() {
    let sshd = Sshd::start();
    let mut spec = sshd.spec();
    spec.keys = vec![sshd.path("locked_key")];
    assert!(refused(&spec).await.contains("is encrypted"));
    spec.key_passphrase = Some(Secret::new("open barley"));
    let reason = refused(&spec).await;
    assert!(reason.contains("the passphrase is wrong") && !reason.contains("barley"), "{reason}");
    spec.key_passphrase = Some(Secret::new("open sesame"));
    connect(&spec).await;
}

#[tokio::test]
async fn a_node_that_does_not_answer_says_so() {
    let sshd = Sshd::start();
    let spec = sshd.spec();
    drop(sshd);
    assert!(refused(&spec).await.contains("no SSH server listens on port"));
}

#[tokio::test]
async fn a_password_opens_a_login_and_sudo() {
    let sshd = Sshd::start();
    let mut spec = sshd.spec();
    spec.keys = Vec::new();
    spec.user = Sshd::USER.to_owned();
    spec.password = Some(Secret::new("wrong"));
    assert!(refused(&spec).await.contains("password (refused)"));
    spec.password = Some(Secret::new(sshd::PASSWORD));
    assert_eq!(connect(&spec).await.run(Command::new("id -u")).await.unwrap(), "0");
    spec.sudo = Sudo::None;
    assert_eq!(connect(&spec).await.run(Command::new("id -un")).await.unwrap(), Sshd::USER);
}

#[tokio::test]
async fn sudo_works_without_a_password_and_says_when_it_wants_one() {
    let sshd = Sshd::start();
    let mut spec = sshd.spec();
    spec.user = Sshd::TRUSTED_USER.to_owned();
    assert_eq!(connect(&spec).await.run(Command::new("id -u")).await.unwrap(), "0");
    spec.sudo_password = Some(Secret::new("not asked for"));
    assert_eq!(connect(&spec).await.run(Command::new("id -u")).await.unwrap(), "0");
    spec.user = Sshd::USER.to_owned();
    let reason = refused(&spec).await;
    assert!(reason.contains("sudo: the password is wrong"), "{reason}");
    spec.sudo_password = None;
    let reason = refused(&spec).await;
    assert!(reason.contains("a password is required") && reason.contains("NOPASSWD"), "{reason}");
    spec.sudo_password = Some(Secret::new(sshd::PASSWORD));
    assert_eq!(connect(&spec).await.run(Command::new("id -u")).await.unwrap(), "0");
}

/// An SSH agent that holds some keys. Gone when dropped.
struct Agent(std::process::Child, std::path::PathBuf);

impl Agent {
    fn start(sshd: &Sshd, keys: &[&str]) -> Self {
        let socket = sshd.path("agent");
        let agent = std::process::Command::new("ssh-agent")
            .arg("-D")
            .arg("-a")
            .arg(&socket)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let agent = Self(agent, socket);
        let end = Instant::now() + Duration::from_secs(10);
        while !agent.1.exists() {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(5));
        }
        for key in keys {
            let status = std::process::Command::new("ssh-add")
                .arg("-q")
                .arg(sshd.path(key))
                .env("SSH_AUTH_SOCK", &agent.1)
                .status()
                .unwrap();
            assert!(status.success());
        }
        agent
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn every_identity_of_the_agent_is_tried() {
    let sshd = Sshd::start();
    let mut spec = sshd.spec();
    spec.keys = Vec::new();
    {
        let agent = Agent::start(&sshd, &["other_key", "host_key", "key"]);
        spec.agent = Some(agent.1.clone());
        assert_eq!(connect(&spec).await.run(Command::new("echo in")).await.unwrap(), "in");
    }
    let reason = refused(&spec).await;
    assert!(reason.contains("agent /"), "{reason}");
}

#[tokio::test]
async fn a_server_that_hears_few_attempts_is_told_apart() {
    let sshd = Sshd::start_with("MaxAuthTries 2");
    let mut spec = sshd.spec();
    spec.keys = ["other_key", "host_key", "key"].map(|name| sshd.path(name)).to_vec();
    let reason = refused(&spec).await;
    assert!(reason.contains("MaxAuthTries"), "{reason}");
}

#[tokio::test]
async fn logins_dropped_by_a_throttling_server_are_tried_again() {
    let sshd = Sshd::start_with("MaxStartups 2:40:8");
    let spec = sshd.spec();
    let specs: Vec<_> = (0..8)
        .map(|_| {
            let spec = spec.clone();
            tokio::spawn(async move { SshRemote::connect(&spec).await.map(drop) })
        })
        .collect();
    for spec in specs {
        spec.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn an_output_beyond_the_limit_is_an_error_and_the_node_stays_usable() {
    let sshd = Sshd::start();
    let remote = connect(&sshd.spec()).await;
    let error = remote.exec(Command::new("truncate -s 1G /dev/stdout")).await.unwrap_err();
    assert!(error.to_string().contains("redirect it to a file"), "{error}");
    assert_eq!(remote.run(Command::new("echo on")).await.unwrap(), "on");
}

#[tokio::test]
async fn nothing_is_left_on_the_node_when_the_remote_is_dropped() {
    let sshd = Sshd::start();
    let remote = connect(&sshd.spec()).await;
    let folder = remote.run(Command::new("readlink -f /proc/self/fd/1")).await.unwrap();
    let folder = Path::new(&folder).parent().unwrap().to_owned();
    assert!(folder.to_str().unwrap().contains("/deposed-lane.") && folder.exists());
    drop(remote);
    let end = Instant::now() + Duration::from_secs(5);
    while folder.exists() {
        assert!(Instant::now() < end, "{folder:?} is left");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_round_trip_costs_milliseconds() {
    let sshd = Sshd::start();
    let remote = connect(&sshd.spec()).await;
    let mut took = Vec::new();
    for _ in 0..200 {
        let began = Instant::now();
        remote.exec(Command::new(":")).await.unwrap();
        took.push(began.elapsed());
    }
    took.sort();
    println!("round trip: median {:?}, p99 {:?}", took[100], took[198]);
    // A login for each would take ten times as long.
    assert!(took[100] < Duration::from_millis(50), "{:?}", took[100]);
}
