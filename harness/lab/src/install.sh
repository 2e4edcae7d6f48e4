# Installs Debian packages without letting their services start. Runs as `sh -c THIS install PACKAGE...`.
# A shell does it, not the controller, so that policy-rc.d is put back even if the controller is killed.
set -u
policy=/usr/sbin/policy-rc.d
saved=$policy.before-deposed
mark='# made by deposed while it installs packages; delete it if no installation is running'

restore() {
    rm -f "$policy"
    if [ -e "$saved" ] || [ -L "$saved" ]; then mv "$saved" "$policy"; fi
}
trap restore EXIT
trap 'exit 130' HUP INT TERM

# One that carries our mark was left by an installation that was killed: it is not worth saving.
if [ -e "$policy" ] && ! grep -qF "$mark" "$policy"; then mv "$policy" "$saved"; fi
printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy"
chmod 755 "$policy"

export DEBIAN_FRONTEND=noninteractive
get() { apt-get -qq -y -o DPkg::Lock::Timeout=300 "$@" </dev/null; }
# Package lists may be absent or too old: fetch them only if the installation fails without.
get install --no-install-recommends "$@" >/dev/null 2>&1 || {
    get update && get install --no-install-recommends "$@"
}
