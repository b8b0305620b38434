"""What must stand in the results of the guest's runs."""

# Where a run was started -> how its gateway must have been limited.
EXPECTED = {
    "root": "cgroup-v2",
    "container": "cgroup-v2",
    "delegated": "cgroup-v2",
    "scope": "cgroup-v2",
    "plain": "none",
}
REPEATS = 3
# A gateway with more work than its quota allows uses it up, but for what the borders of the phase cut.
SHARE_MIN, SHARE_MAX = 0.9, 1.05
# What a gateway holds at least; the files of the guest are memory of its own, so programs are in nobody's account.
MEMORY_BYTES_MIN = 1 << 19
TOLD = ["cpu_share_of_limit", "throttled_s", "periods", "periods_throttled", "memory_bytes_peak", "pids_max",
        "threads_max", "open_files_max"]


class Repeat:
    """The gateway's part in one cell."""

    def __init__(self, name, cell):
        self.name = f"{name}, repeat {cell['key']['repeat'] + 1}"
        (self.part,) = [part for part in cell["parts"] if part["role"] == "data"]
        (self.load,) = cell["outcome"]["measurements"]
        self.usage = self.load["usage"][self.part["name"]]
        self.sent = self.load["counters"]["generator_sent"]

    def reasons(self, metric):
        return self.load["judgement"]["verdicts"][metric]

    def figures(self):
        told = ", ".join(f"{name} {self.usage[name]:.4g}" for name in TOLD if self.usage[name] is not None)
        return f"{self.name}: limited by {self.part['limited_by']}; {told}; {self.sent} requests"


def findings(name, document, is_quiet):
    """Prints the figures of a run, and gives a sentence for everything that is not as it must be. What depends on time is
    judged where the machine was quiet."""
    failed = [cell for cell in document["cells"] if cell["outcome"]["kind"] != "measured"]
    if failed or len(document["cells"]) != 2 * REPEATS:
        return [f"{name}: {len(document['cells'])} cells, {len(failed)} failed: {[cell['outcome'] for cell in failed]}"]
    repeats = [Repeat(name, cell) for cell in document["cells"] if cell["key"]["gateway"] != "direct"]
    for repeat in repeats:
        print(repeat.figures())
    is_limited = EXPECTED[name] != "none"
    cgroup = document["run"]["manifest"]["cgroup"]
    found = [f"{name}: {cgroup} stands in the manifest"] if cgroup != ("v2" if is_limited else "none") else []
    for repeat in repeats:
        expected = {
            f"limited by {EXPECTED[name]}": repeat.part["limited_by"] == EXPECTED[name],
            "requests were sent": repeat.sent > 0,
            **(limited if is_limited else unlimited)(repeat),
        }
        found += [f"{repeat.name}: not so: {what}; {repeat.usage}" for what, holds in expected.items() if not holds]
    # A moment's disturbance of this machine keeps the load from the gateway, or lets a quota be overrun.
    if is_quiet and is_limited and not any(SHARE_MIN <= repeat.usage["cpu_share_of_limit"] <= SHARE_MAX for repeat in repeats):
        found.append(f"{name}: in no repeat the share of the limit lies in {SHARE_MIN}..{SHARE_MAX}")
    return found


def limited(repeat):
    usage = repeat.usage
    return {
        "limits were applied": repeat.part["limits_applied"] is True,
        "no reason says that a limit was not applied": "limit-not-applied" not in repeat.reasons("throughput"),
        "latency is void, because the quota paused the gateway": "throttled" in repeat.reasons("latency"),
        "periods were throttled": 0 < (usage["periods_throttled"] or 0) <= (usage["periods"] or 0),
        "throttled time was counted": (usage["throttled_s"] or 0) > 0,
        "CPU time in user mode and in the kernel": min(usage["cpu_s"]["user"], usage["cpu_s"]["system"]) > 0,
        "memory lies between half a MiB and its limit":
            MEMORY_BYTES_MIN < (usage["memory_bytes_peak"] or 0) <= repeat.part["limit_memory_bytes"],
        "one process with a thread or more": usage["pids_max"] == 1 and usage["threads_max"] >= 1,
        "open files were counted": (usage["open_files_max"] or 0) > 3,
    }


def unlimited(repeat):
    usage = repeat.usage
    reasons = [repeat.reasons(metric) for metric in ("throughput", "latency", "cpu")]
    return {
        "limits were not applied": repeat.part["limits_applied"] is False,
        "every figure is void, because the limit was not applied": all("limit-not-applied" in said for said in reasons),
        "nothing is known of periods": usage["periods"] is None and usage["throttled_s"] is None,
        "memory was read from the process": (usage["memory_bytes_peak"] or 0) > 0,
    }
