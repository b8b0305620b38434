#!/bin/busybox sh
# The guest's first process: prepares the guest, runs weir's tests and `weir run`, prints failed steps, and shuts down.
# Results of runs go to the second serial port, all other output to the first.
/bin/busybox --install -s /bin
# /bin is last on PATH, because busybox's tools have fewer options.
export PATH=/weir:/usr/bin:/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs -o mode=755 run /run
mount -t cgroup2 cgroup /sys/fs/cgroup
probe=$(cat /weir/probe-place)
mkdir -p "${probe%/*}" && cp /weir/weir-rig-probe "$probe"
ip link set lo up
for module in /lib/modules/*.ko; do
    insmod "$module"
done
# The terminal must not change the bytes of results.
stty -F /dev/ttyS1 raw

USER=1000
GROUPS=/sys/fs/cgroup
failed=

# step NAME COMMAND..
step() {
    name=$1
    shift
    echo "== $name"
    if "$@"; then
        echo "== $name: passed"
    else
        echo "== $name: failed ($?)"
        failed="$failed $name"
    fi
}

# group NAME: creates a control group that root owns.
group() {
    mkdir -p "$GROUPS/$1"
}

# delegated NAME: creates a control group that is delegated to the user, as a service manager does.
delegated() {
    group "$1"
    for file in "" cgroup.procs cgroup.threads cgroup.subtree_control; do
        chown "$USER:$USER" "$GROUPS/$1/$file"
    done
}

# as_user GROUP COMMAND..: runs the command as the user, as the only process of that control group.
as_user() {
    inside=$1
    shift
    (
        echo 0 >"$GROUPS/$inside/cgroup.procs" || exit 1
        cd /tmp && exec /usr/bin/setpriv --reuid="$USER" --regid="$USER" --clear-groups "$@"
    )
}

# in_container COMMAND..: runs the command as root in a new cgroup namespace, whose root is the group `container`.
in_container() {
    group container
    (
        echo 0 >"$GROUPS/container/cgroup.procs" || exit 1
        exec /usr/bin/unshare --cgroup --mount --propagation private /bin/sh -c \
            'umount /sys/fs/cgroup && mount -t cgroup2 cgroup /sys/fs/cgroup && exec "$0" "$@"' "$@"
    )
}

# measured NAME COMMAND..: runs the scenario with that command, and writes the result to the second serial port.
measured() {
    run=$1
    shift
    "$@" weir run /weir/scenario.yaml --db "/tmp/$run.db" --out "/tmp/$run" --json >"/tmp/$run.json" 2>"/tmp/$run.err"
    status=$?
    cat "/tmp/$run.err"
    { echo "result $run $status"; cat "/tmp/$run.json"; echo; } >/dev/ttyS1
    # 4: some values are invalid, as on a slow guest or without limits.
    [ "$status" -eq 0 ] || [ "$status" -eq 4 ]
}

nothing_left() {
    # The leaf group weir-lab of a delegated group stays. find may fail because a scope of the service manager
    # disappears during the search.
    left=$(find "$GROUPS" -mindepth 1 -type d -name 'weir-*' ! -name weir-lab 2>/dev/null)
    left="$left$(ls -d /tmp/weir-work-* 2>/dev/null)$(pidof weir weir-gateway weir-rig-probe)"
    [ -z "$left" ] || { echo "left over: $left"; return 1; }
}

manager_is_up() {
    tries=0
    until [ -S "/run/user/$USER/systemd/private" ]; do
        tries=$((tries + 1))
        [ "$tries" -le 600 ] || return 1
        sleep 0.1
    done
}

echo "== facts"
uname -sr
echo "controllers: $(cat $GROUPS/cgroup.controllers)"
echo "processors: $(nproc)"

step unit-tests-as-root /weir/rig-unit --test-threads 2
step rig-tests-as-root /weir/rig-it --test-threads 2 cleaning:: launching:: limiting:: rootless::
step run-as-root measured root env
step doctor-as-root weir doctor --quick

echo "+cpu +memory +pids" >$GROUPS/cgroup.subtree_control
delegated tests
delegated tests/weir-lab
step rig-tests-as-user as_user tests/weir-lab /weir/rig-it --test-threads 2 cleaning:: launching:: limiting:: rootless::

step run-in-a-container measured container in_container

delegated own
step run-in-a-delegated-group measured delegated as_user own

group session
step run-without-a-group measured plain as_user session
step doctor-without-a-group as_user session weir doctor --quick

# Starts a real `systemd --user`. The guest has no system manager that could move processes between groups, so the
# manager and the session run in subgroups of one group of the user. If /run/systemd/system exists, programs assume that
# a system manager runs.
mkdir -p /run/systemd/system
delegated user
echo "+cpu +memory +pids" >$GROUPS/user/cgroup.subtree_control
delegated user/manager
group user/session
mkdir -p "/run/user/$USER"
chown "$USER:$USER" "/run/user/$USER"
export XDG_RUNTIME_DIR="/run/user/$USER"
as_user user/manager /lib/systemd/systemd --user --log-target=console --log-level=warning &
step service-manager-of-the-user manager_is_up
step run-in-a-scope measured scope as_user user/session
step doctor-in-a-scope as_user user/session weir doctor --quick
kill "$!"

step nothing-left nothing_left
sync
echo "== end:${failed:- all steps passed}"
reboot -f
