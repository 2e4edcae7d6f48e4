//! A timer on the node that undoes a fault when nobody calls it off in time.
//!
//! Whatever becomes of the controller or of the connection, the node recovers by itself: before a
//! fault is applied, its undo script is written to [`DIR`] and a detached shell is started that
//! sleeps for the time of the lease and then runs it until it succeeds. Scripts left there are also
//! what a heal from a cold start runs. The directory does not survive a reboot, and neither does
//! any fault that uses it.

use std::fmt::Write as _;
use std::time::Duration;

use deposed_core::Lease;

use crate::firewall::PATH;

/// Where undo scripts (`NAME.undo`) and timers (`NAME.timer`: pid and start time) are kept.
pub(crate) const DIR: &str = "/run/deposed";

/// How often a timer tries a failing undo script, two seconds apart.
const TRIES: u32 = 60;

/// Shell functions. `fields PID` sets the words of `/proc/PID/stat` from the state (`$1`) on, so
/// that the start time is `${20}`; the name before them may hold blanks and parentheses.
pub(crate) const PROC: &str = r#"
fields() { s=$(cat "/proc/$1/stat" 2>/dev/null) && s=${s##*) }; }
born() { fields "$1" || return 1; set -- $s; echo "${20}"; }
"#;

/// `cancel NAME` ends a timer and forgets its script.
fn cancel() -> String {
    format!(
        r#"{PROC}
cancel() {{
  if read -r p t 2>/dev/null <"{DIR}/$1.timer" && [ "$(born "$p")" = "$t" ]; then
    kill -s KILL -- "-$p" 2>/dev/null || true
  fi
  rm -f "{DIR}/$1.timer" "{DIR}/$1.undo"
}}
"#
    )
}

/// Starts the timer, then runs `apply`. Sent twice, it starts over.
pub(crate) fn arm(lease: &Lease, undo: &str, apply: &str) -> String {
    let Lease { name, ttl } = lease;
    let ttl = ttl.max(&Duration::from_secs(1)).as_millis().div_ceil(1000);
    let mut script = format!("{PATH}{}set -e\nmkdir -p {DIR}\ncancel {name}\n", cancel());
    let _ = write!(
        script,
        r#"cat >{DIR}/{name}.undo <<'DEPOSED_UNDO'
{undo}
DEPOSED_UNDO
setsid sh -c 'sleep {ttl}; n=0
until sh {DIR}/{name}.undo; do n=$((n+1)); [ $n -lt {TRIES} ] || exit 1; sleep 2; done
rm -f {DIR}/{name}.undo {DIR}/{name}.timer' </dev/null >/dev/null 2>&1 &
echo "$! $(born $!)" >{DIR}/{name}.timer
(
{apply}
)
"#
    );
    script
}

/// Runs `undo`; if it succeeds, calls the timer off. Its exit status is that of `undo`.
pub(crate) fn disarm(name: &str, undo: &str) -> String {
    format!("{PATH}{}(\n{undo}\n) || exit\ncancel {name}\n", cancel())
}

/// Runs every undo script left on the node and calls off their timers. Fails if one of them does.
pub(crate) fn sweep() -> String {
    format!(
        r#"{PATH}{}
failed=
for u in {DIR}/*.undo; do
  [ -e "$u" ] || continue
  n=${{u##*/}}; n=${{n%.undo}}
  if sh "$u" >&2; then cancel "$n"; else failed="$failed $n"; fi
done
rmdir {DIR} 2>/dev/null
[ -z "$failed" ] || {{ echo "not undone:$failed" >&2; exit 1; }}
"#,
        cancel()
    )
}
