//! The software on a node: Debian packages, uploads, install commands.

use std::collections::BTreeSet;
use std::time::Duration;

use deposed_core::{Command, Remote, SystemError};

use crate::daemon::quote;
use crate::system::DescribedSystem;

/// Packages and install commands may take this long each.
const INSTALL_LIMIT: Duration = Duration::from_secs(300);

/// Installs Debian packages and lets none of them start a service: what runs is the harness's say.
/// A policy of the machine's owner is left alone; one that a killed installation left is ours.
const APT: &str = r#"
# One installation at a time, or the first to end would take the policy from the others.
mkdir -p /run/deposed
exec 9>/run/deposed/packages.lock
flock -w 240 9 || { echo "another installation is still under way" >&2 && exit 1; }
policy=/usr/sbin/policy-rc.d
mark='# made by deposed while it installs packages; delete it if no installation is running'
if [ ! -e "$policy" ] || grep -qF "$mark" "$policy"; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
get() { apt-get -q -y -o DPkg::Lock::Timeout=120 "$@" >&2 </dev/null 9>&-; }
# Package lists may be absent or too old: fetch them only if it fails without.
get install --no-install-recommends $packages || {
    get update && get install --no-install-recommends $packages
}
"#;

impl DescribedSystem {
    /// Brings packages, uploads and the results of install commands to a node, and names the
    /// packages that were not there before.
    pub(crate) async fn install_on(&self, remote: &dyn Remote) -> Result<Vec<String>, SystemError> {
        let part = self.part_of(remote)?;
        let installed = self.install_packages(remote).await?;
        for upload in &part.blueprint.upload {
            let bytes = tokio::fs::read(&upload.from)
                .await
                .map_err(|e| self.unfit(remote, format!("read {}: {e}", upload.from.display())))?;
            let sent = remote.upload(&bytes, &upload.to, upload.mode).await;
            sent.map_err(self.failed("upload"))?;
        }
        for script in &part.blueprint.install {
            let command = Command::new(script).deadline(INSTALL_LIMIT);
            remote.run(command).await.map_err(self.failed("install"))?;
        }
        Ok(installed)
    }

    async fn install_packages(&self, remote: &dyn Remote) -> Result<Vec<String>, SystemError> {
        let wanted = &self.summary.packages;
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let programs: Vec<String> = wanted.keys().map(|program| quote(program)).collect();
        let look = format!(
            "PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin\n\
             for program in apt-get {}; do\n\
             command -v \"$program\" >/dev/null || echo \"$program\"\ndone",
            programs.join(" ")
        );
        let found = remote.run(Command::new(look).idempotent()).await;
        let found = found.map_err(self.failed("look for its programs"))?;
        let absent: BTreeSet<&str> = found.lines().collect();
        let missing = wanted.iter().filter(|(program, _)| absent.contains(program.as_str()));
        let (programs, packages): (Vec<&str>, BTreeSet<&str>) =
            missing.map(|(program, package)| (program.as_str(), package.as_str())).unzip();
        if programs.is_empty() {
            return Ok(Vec::new());
        }
        let programs = programs.join(", ");
        let missing: Vec<String> = packages.into_iter().map(str::to_owned).collect();
        let packages = missing.join(" ");
        if absent.contains("apt-get") {
            let reason = format!(
                "{programs} missing, and there is no apt-get: install what Debian calls {packages}"
            );
            return Err(self.unfit(remote, reason));
        }
        if !self.install {
            let reason = format!("{programs} missing: apt-get install {packages}");
            return Err(self.unfit(remote, reason));
        }
        tracing::info!(node = %remote.node().name, %packages, "installing packages");
        let script = format!("packages={}\n{APT}", quote(&packages));
        let installed = remote.run(Command::new(script).deadline(INSTALL_LIMIT)).await;
        installed.map_err(self.failed("install packages"))?;
        Ok(missing)
    }
}
