# Source this file: `log` prints lines with the elapsed time, `wait_for` waits for a condition.
# shellcheck shell=bash

BEGAN=${EPOCHREALTIME/[.,]/}

# Prints a line with the seconds since the script started.
log() {
    local tenths=$(((${EPOCHREALTIME/[.,]/} - BEGAN) / 100000))
    printf '%3d.%d s  %s\n' $((tenths / 10)) $((tenths % 10)) "$*"
}

# Repeats a command every 0.2 s until it succeeds: wait_for SECONDS COMMAND..
wait_for() {
    local seconds=$1
    shift
    for _ in $(seq $((seconds * 5))); do
        ! "$@" > /dev/null 2>&1 || return 0
        sleep 0.2
    done
    echo "timed out after $seconds s: $*" >&2
    return 1
}
