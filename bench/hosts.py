"""How much of the host others used while something was measured (docs/decisions/0004)."""

import os
import re
import time
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# `docs/method.md#verdicts`: a figure is disturbed when steal and the CPU time of others exceed this share of the host.
DISTURBED_SHARE = 0.02
# A p99 is moved by less: by half of what lies beyond it, where others took that time in one piece.
DISTURBED_SHARE_OF_P99 = 0.005
ATTEMPTS_MAX = 5
# The namespace that a kernel starts with; its root group holds every process of the host.
FIRST_CGROUP_NAMESPACE = "cgroup:[4026531835]"


class HostWatch:
    """How much of the host others took, and the hypervisor, between its making and `share`."""

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
        """Steal plus CPU time of processes that are not ours, as a share of all CPUs."""
        before, now = self.before, self.look()
        wall_s, idle_s, steal_s, own_s = (now[field] - before[field] for field in (0, 2, 3, 4))
        whole_s = wall_s * os.cpu_count()
        # Idle time is exact on a tickless kernel, but leaves to others the ways into and out of it: the group's
        # account is better where it is the true root's.
        busy_s = now[1] - before[1] if self.account else whole_s - idle_s - steal_s
        return (max(0.0, busy_s - own_s) + steal_s) / whole_s


def root_account():
    """The file that counts the CPU time of every process of the host, or None where there is none."""
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
    """The CPU of the server and that of the tool: the first and the last that are ours.

    With a single CPU all share it; ratios stay meaningful, rates don't.
    """
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[0], cpus[-1]
