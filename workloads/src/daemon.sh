# One service on one node, in plain POSIX sh with what every Debian has. The caller sets
#   run       a directory of deposed's own, on a file system that a reboot empties
#   data      where the service runs
#   log_file  where its output goes
#   user      who it runs as; empty for root
#   start     the command
#
# A service is a session: `start_service` makes its leader, and writes the leader's pid and start
# time to $run/pid. A pid alone proves nothing, as it may belong to somebody else by now.

# Sets `members` to the living processes of the service as PID:TICKS words, the leader first.
members() {
    members= others= leader= leader_ticks=
    [ -r "$run/pid" ] && read -r leader leader_ticks <"$run/pid" || return 0
    for stat in /proc/[0-9]*/stat; do
        { read -r line <"$stat"; } 2>/dev/null || continue
        pid=${line%% *}
        # After the name in parentheses: state ppid pgrp session ... start time as the 20th.
        set -- ${line##*) }
        case $1 in Z | X | x) continue ;; esac
        if [ "$pid" = "$leader" ]; then
            # With another start time it is a stranger, and so is its session.
            [ "${20}" = "$leader_ticks" ] || { members= && return 0; }
            members="$pid:${20}"
        elif [ "$4" = "$leader" ]; then
            others="$others $pid:${20}"
        fi
    done
    if [ -n "$members" ]; then
        members="$members$others"
        return 0
    fi
    # Without the leader a session number may have been used again: ask each what it belongs to.
    for other in $others; do
        if tr '\0' '\n' <"/proc/${other%%:*}/environ" 2>/dev/null |
            grep -qxF "DEPOSED_SERVICE=$run"; then
            members="$members $other"
        fi
    done
}

# What the leader does before it becomes the service. Arguments: run data user start.
launch='
read -r line </proc/$$/stat
run=$1 data=$2 user=$3 start=$4
set -- ${line##*) }
echo "$$ ${20}" >"$run/pid.new" && mv "$run/pid.new" "$run/pid" && cd "$data" || exit 1
export DEPOSED_SERVICE="$run" HOME="${HOME:-/root}"
[ -n "$user" ] || exec sh -c "$start"
export HOME="$data"
exec setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups sh -c "$start"
'

# Starts the service unless it runs.
start_service() {
    mkdir -p "$run" "${log_file%/*}" || return 1
    exec 9>"$run/lock"
    flock -w 10 9 || { echo "another start is still under way" >&2 && return 1; }
    members
    [ -z "$members" ] || return 0
    rm -f "$run/pid"
    # Not `&`: that would have it ignore SIGINT and SIGQUIT for life.
    setsid -f sh -c "$launch" "${log_file##*/}" "$run" "$data" "$user" "$start" \
        </dev/null >>"$log_file" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- || return 1
    tries=0
    until [ -s "$run/pid" ]; do
        tries=$((tries + 1))
        [ "$tries" -le 100 ] || { echo "no pid was recorded within 5 s" >&2 && return 1; }
        sleep 0.05
    done
}

# Kills every process of the service, and nobody else's.
kill_service() {
    rounds=0
    while members && [ -n "$members" ]; do
        [ "$rounds" -lt 200 ] || { echo "alive 10 s after SIGKILL: $members" >&2 && return 1; }
        for member in $members; do kill -KILL "${member%%:*}" 2>/dev/null; done
        rounds=$((rounds + 1))
        sleep 0.05
    done
    rm -f "$run/pid" "$run/pid.new"
}

# Prints address (in hexadecimal, as the kernel writes it) and inode of every socket that listens
# on a port.
listeners() {
    awk -v port="$(printf '%04X' "$1")" '
        $4 == "0A" && split($2, at, ":") == 2 && at[2] == port { print at[1], $10 }
    ' /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# Prints who has a socket open, by its inode.
holder() {
    pid=$(find /proc/[0-9]*/fd -lname "socket:\[$1\]" 2>/dev/null | head -n 1)
    pid=${pid#/proc/} && pid=${pid%%/*}
    [ -n "$pid" ] || { echo "a process that cannot be seen from here" && return 0; }
    unit=$(sed -n 's|.*/\([^/]*\.service\).*|\1|p' "/proc/$pid/cgroup" 2>/dev/null | head -n 1)
    echo "$(cat "/proc/$pid/comm" 2>/dev/null) (pid $pid${unit:+, unit $unit})"
}
