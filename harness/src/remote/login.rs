//! Who are we? Named keys, then the agent's identities, then the usual files, then the password.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ssh2::{ErrorCode, KeyboardInteractivePrompt, Prompt, Session};

use super::handshake::Refused;
use crate::inventory::NodeSpec;

/// Logs the session in. The error lists everything that was tried.
pub(super) fn login(session: &Session, spec: &NodeSpec) -> Result<(), Refused> {
    let offered = session.auth_methods(&spec.user)?.to_owned();
    if session.authenticated() {
        return Ok(());
    }
    let offers = |method: &str| offered.split(',').any(|word| word == method);
    let mut attempts = Attempts { session, spec, tried: Vec::new() };
    let is_in = offers("publickey")
        && (attempts.keys(&spec.keys, true)?
            || attempts.agent()?
            || attempts.keys(&spec.fallback_keys, false)?);
    if is_in || attempts.password(offers("password"), offers("keyboard-interactive"))? {
        return Ok(());
    }
    if attempts.tried.len() > 1 && session.auth_methods(&spec.user).is_err() {
        return Err(attempts.hung_up(""));
    }
    let tried = if attempts.tried.is_empty() {
        "there was nothing to try: no key, no agent, no password".to_owned()
    } else {
        format!("tried {}", attempts.tried.join("; "))
    };
    Err(Refused::Lasting(format!(
        "{} could not log in: {tried}. The server takes {offered}. Name the right key (`key`) or user \
         (`user`), or add the public key to ~{}/.ssh/authorized_keys on the node",
        spec.user, spec.user
    )))
}

struct Attempts<'a> {
    session: &'a Session,
    spec: &'a NodeSpec,
    tried: Vec<String>,
}

impl Attempts<'_> {
    /// Tries private keys. One that is not `named` is passed over quietly if it cannot be used.
    fn keys(&mut self, files: &[std::path::PathBuf], named: bool) -> Result<bool, Refused> {
        for file in files {
            let what = format!("key {}", file.display());
            let text = match std::fs::read_to_string(file) {
                Ok(text) => text,
                Err(error) if named => {
                    self.tried.push(format!("{what} (cannot be read: {error})"));
                    continue;
                }
                Err(_) => continue,
            };
            let passphrase = self.spec.key_passphrase.as_ref().filter(|_| is_encrypted(&text));
            if is_encrypted(&text) && passphrase.is_none() {
                self.tried.push(format!("{what} (is encrypted: say its `key_passphrase`)"));
                continue;
            }
            let result = self.session.userauth_pubkey_memory(
                &self.spec.user,
                None,
                &text,
                passphrase.map(|secret| secret.expose()),
            );
            let wrong_file = if passphrase.is_some() {
                "cannot be decrypted: the passphrase is wrong"
            } else {
                "is not a private key that can be used"
            };
            if self.note(&what, result, wrong_file)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Tries every identity of the agent: libssh2's own way in tries the first alone.
    fn agent(&mut self) -> Result<bool, Refused> {
        let Some(socket) = &self.spec.agent else { return Ok(false) };
        let identities = || -> Result<_, ssh2::Error> {
            let mut agent = self.session.agent()?;
            agent.set_identity_path(socket)?;
            agent.connect()?;
            agent.list_identities()?;
            let identities = agent.identities()?;
            Ok((agent, identities))
        };
        let (agent, identities) = match identities() {
            Ok(agent) => agent,
            Err(error) => {
                self.tried.push(format!("agent {} ({})", socket.display(), error.message()));
                return Ok(false);
            }
        };
        for identity in &identities {
            let what = format!("agent's {}", identity.comment());
            let result = agent.userauth(&self.spec.user, identity);
            if self.note(&what, result, "the agent would not sign")? {
                return Ok(true);
            }
        }
        if identities.is_empty() {
            self.tried.push(format!("agent {} (it is empty)", socket.display()));
        }
        Ok(false)
    }

    /// Tries the password in both of the ways a server may ask for one.
    fn password(&mut self, plainly: bool, interactively: bool) -> Result<bool, Refused> {
        let Some(password) = &self.spec.password else { return Ok(false) };
        let (user, password) = (&self.spec.user, password.expose());
        if plainly && self.note("password", self.session.userauth_password(user, password), "")? {
            return Ok(true);
        }
        if !interactively {
            return Ok(false);
        }
        let result = self.session.userauth_keyboard_interactive(user, &mut Answer(password));
        self.note("password (keyboard-interactive)", result, "")
    }

    /// Whether an attempt led in. Errs when the server will hear no more.
    fn note(
        &mut self,
        what: &str,
        result: Result<(), ssh2::Error>,
        wrong_file: &str,
    ) -> Result<bool, Refused> {
        let Err(error) = result else { return Ok(self.session.authenticated()) };
        match error.code() {
            ErrorCode::Session(-18 | -19) => self.tried.push(format!("{what} (refused)")),
            ErrorCode::Session(-16) => self.tried.push(format!("{what} ({wrong_file})")),
            ErrorCode::Session(-7 | -13 | -43) => return Err(self.hung_up(what)),
            ErrorCode::Session(-9 | -30) => return Err(Refused::Late),
            _ => self.tried.push(format!("{what} ({})", error.message())),
        }
        Ok(false)
    }

    /// A server that ends a connection after some attempts may fail the rest without a word.
    fn hung_up(&self, during: &str) -> Refused {
        let tried = self.tried.join("; ");
        Refused::Lasting(format!(
            "the server hung up during login: tried {tried}; {during}. It may allow few attempts \
             (MaxAuthTries): name the one right `key`"
        ))
    }
}

/// Whether a private key needs a passphrase: `OpenSSH`'s own format names its cipher up front, and
/// the older ones say ENCRYPTED.
fn is_encrypted(text: &str) -> bool {
    const MAGIC: &[u8] = b"openssh-key-v1\0";
    const NONE: &[u8] = b"\0\0\0\x04none";
    let body: String = text.lines().filter(|line| !line.starts_with("-----")).collect();
    match STANDARD.decode(body) {
        Ok(blob) if blob.starts_with(MAGIC) => !blob[MAGIC.len()..].starts_with(NONE),
        _ => text.contains("ENCRYPTED"),
    }
}

/// Answers every hidden prompt with the password, and leaves visible ones empty.
struct Answer<'a>(&'a str);

impl KeyboardInteractivePrompt for Answer<'_> {
    fn prompt(&mut self, _: &str, _: &str, prompts: &[Prompt<'_>]) -> Vec<String> {
        let answer = |prompt: &Prompt<'_>| if prompt.echo { "" } else { self.0 };
        prompts.iter().map(|prompt| answer(prompt).to_owned()).collect()
    }
}
