"""Host noise: the share of the host's CPU time that others use during a measurement (docs/decisions/0004)."""

import os
import re
import time
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# `docs/method.md#verdicts`: host noise above this share makes a measurement invalid.
DISTURBED_SHARE = 0.02
# A p99 is more sensitive: noise of 0.5 % in a single burst can delay half of the requests beyond the p99.
DISTURBED_SHARE_OF_P99 = 0.005
ATTEMPTS_MAX = 5
# The kernel's initial cgroup namespace. Its root group contains every process of the host.
FIRST_CGROUP_NAMESPACE = "cgroup:[4026531835]"


class HostWatch:
    """Measures host noise from construction until `share` is called."""

    def __init__(self, processes):
        self.processes = processes
        self.account = root_account()
        self.before = self.look()

    def look(self):
        fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
        _user, _nice, _system, idle, iowait, _irq, _softirq, steal = (int(field) / TICKS_PER_S for field in fields)
        busy_s = int(self.account.read_text()) / 1e9 if self.account else None
        return time.monotonic(), busy_s, idle + iowait, steal, self.processes.cpu_s()

    def share(self):
        """Steal plus CPU time of other processes, as a share of all CPUs."""
        before, now = self.before, self.look()
        wall_s, idle_s, steal_s, own_s = (now[field] - before[field] for field in (0, 2, 3, 4))
        whole_s = wall_s * os.cpu_count()
        # Uses the CPU time of the root control group if available, because it is more exact. Otherwise, busy time is
        # the time that is neither idle nor stolen. On a tickless kernel, idle time is exact, but the time to enter and
        # leave idle counts as noise.
        busy_s = now[1] - before[1] if self.account else whole_s - idle_s - steal_s
        return (max(0.0, busy_s - own_s) + steal_s) / whole_s


def root_account():
    """The file with the CPU time of all processes of the host, or None."""
    if os.readlink("/proc/self/ns/cgroup") != FIRST_CGROUP_NAMESPACE:
        return None
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount = re.match(r"\S+ \S+ \S+ / (\S+) .* - \S+ \S+ (\S+)$", line)
        if mount and "cpuacct" in mount[2].split(","):
            account = Path(mount[1]) / "cpuacct.usage"
            return account if account.exists() else None
    return None


def is_disturbed(share, most=DISTURBED_SHARE):
    return share > most


def placement():
    """(CPU of the server, CPU of the tool): the first and the last CPU that this process may use.

    If there is only one CPU, ratios stay meaningful but rates do not.
    """
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[0], cpus[-1]
