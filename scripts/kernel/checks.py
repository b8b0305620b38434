"""Checks of the results of the guest's runs."""

# environment of a run -> mechanism that must have limited its gateway
EXPECTED = {
    "root": "cgroup-v2",
    "container": "cgroup-v2",
    "delegated": "cgroup-v2",
    "scope": "cgroup-v2",
    "plain": "none",
}
REPEATS = 3
# An overloaded gateway uses its whole quota, except at the start and end of the phase.
SHARE_MIN, SHARE_MAX = 0.9, 1.05
# Minimum memory of a gateway. Program files of the guest are in its initramfs and are not charged to a group.
MEMORY_BYTES_MIN = 1 << 19
PRINTED = ["cpu_share_of_limit", "throttled_s", "periods", "periods_throttled", "memory_bytes_peak", "pids_max",
           "threads_max", "open_files_max"]


class Repeat:
    """The gateway in one cell."""

    def __init__(self, name, cell):
        self.name = f"{name}, repeat {cell['key']['repeat'] + 1}"
        (self.part,) = [part for part in cell["parts"] if part["role"] == "data"]
        (self.load,) = cell["outcome"]["measurements"]
        self.usage = self.load["usage"][self.part["name"]]
        self.sent = self.load["counters"]["generator_sent"]

    def reasons(self, metric):
        return self.load["judgement"]["verdicts"][metric]

    def figures(self):
        printed = ", ".join(f"{name} {self.usage[name]:.4g}" for name in PRINTED if self.usage[name] is not None)
        return f"{self.name}: limited by {self.part['limited_by']}; {printed}; {self.sent} requests"


def findings(name, document, is_quiet):
    """Prints the results of a run and returns one sentence per error. Checks that depend on timing are skipped unless
    the machine was quiet."""
    failed = [cell for cell in document["cells"] if cell["outcome"]["kind"] != "measured"]
    if failed or len(document["cells"]) != 2 * REPEATS:
        return [f"{name}: {len(document['cells'])} cells, {len(failed)} failed: {[cell['outcome'] for cell in failed]}"]
    repeats = [Repeat(name, cell) for cell in document["cells"] if cell["key"]["gateway"] != "direct"]
    for repeat in repeats:
        print(repeat.figures())
    is_limited = EXPECTED[name] != "none"
    cgroup = document["run"]["manifest"]["cgroup"]
    found = [f"{name}: the manifest has cgroup {cgroup}"] if cgroup != ("v2" if is_limited else "none") else []
    for repeat in repeats:
        expected = {
            f"limited by {EXPECTED[name]}": repeat.part["limited_by"] == EXPECTED[name],
            "requests were sent": repeat.sent > 0,
            **(limited if is_limited else unlimited)(repeat),
        }
        found += [f"{repeat.name}: failed: {what}; {repeat.usage}" for what, holds in expected.items() if not holds]
    # Brief host noise may reduce the load of a gateway or let it exceed its quota, so one good repeat is enough.
    if is_quiet and is_limited and not any(SHARE_MIN <= repeat.usage["cpu_share_of_limit"] <= SHARE_MAX for repeat in repeats):
        found.append(f"{name}: no repeat uses a share of {SHARE_MIN} to {SHARE_MAX} of its limit")
    return found


def limited(repeat):
    usage = repeat.usage
    return {
        "limits were applied": repeat.part["limits_applied"] is True,
        "throughput has no reason `limit-not-applied`": "limit-not-applied" not in repeat.reasons("throughput"),
        "latency is invalid, because the quota throttled the gateway": "throttled" in repeat.reasons("latency"),
        "periods were throttled": 0 < (usage["periods_throttled"] or 0) <= (usage["periods"] or 0),
        "throttled time was counted": (usage["throttled_s"] or 0) > 0,
        "CPU time was used in user mode and in the kernel": min(usage["cpu_s"]["user"], usage["cpu_s"]["system"]) > 0,
        "memory is between 0.5 MiB and its limit":
            MEMORY_BYTES_MIN < (usage["memory_bytes_peak"] or 0) <= repeat.part["limit_memory_bytes"],
        "one process with at least one thread ran": usage["pids_max"] == 1 and usage["threads_max"] >= 1,
        "open files were counted": (usage["open_files_max"] or 0) > 3,
    }


def unlimited(repeat):
    usage = repeat.usage
    reasons = [repeat.reasons(metric) for metric in ("throughput", "latency", "cpu")]
    return {
        "limits were not applied": repeat.part["limits_applied"] is False,
        "every metric is invalid, because the limit was not applied": all("limit-not-applied" in said for said in reasons),
        "periods were not measured": usage["periods"] is None and usage["throttled_s"] is None,
        "memory was read from the process": (usage["memory_bytes_peak"] or 0) > 0,
    }
