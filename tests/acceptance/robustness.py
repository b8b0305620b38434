"""Runs lose no finished cell and leave nothing behind, even after a hundred kills or with faults of the host."""

import fcntl
import os
import pathlib
import random
import re
import signal
import socket
import sqlite3
import subprocess
import time

from checks import ROOT, expect

KILLS = 100
SEED = 20261121
# Cells take about a second. There are enough of them that most kills hit an unfinished run.
REPEATS = 12
SCENARIO = """
name: killed
question: Does it hold together?
gateways: [weir, nginx]
limits: { data: { cpus: 0.5, memory: 128MiB } }
topology: { domains: 1, paths: [/ping] }
origin: { body: 64B }
loads:
  full: { model: closed, connections: 4 }
warmup: 100ms
duration: 300ms
repeats: %d
"""
# moment of a kill -> (file whose appearance marks the moment, maximum delay after it in seconds)
SIGNS = {
    "at any time": (None, 2.5),
    "opening the database": ("weir.db*", 0.05),
    "taking hold of the host": ("state/*.ledger", 0.05),
    "starting parts": ("tmp/weir-work-*/cell-*/origin.log", 0.05),
    "starting the gateway": ("tmp/weir-work-*/cell-*/gateway/*", 0.05),
    "under load": ("tmp/weir-work-*/cell-*/*.generator.log", 0.4),
    "committing": ("tmp/weir-work-*/cell-*/*.record.json", 0.4),
    "reporting": ("out-weir/report*", 0.01),
}


class Yard:
    """A folder for runs, with a separate temporary folder and lock, so that leftovers of these runs can be found."""

    def __init__(self, rig, name):
        self.rig, self.folder, self.labs = rig, rig.folder / name, []
        for folder in ("tmp", "state"):
            (self.folder / folder).mkdir(parents=True)
        self.scenario = self.folder / "killed.yaml"
        self.scenario.write_text(SCENARIO % (4 if rig.quick else REPEATS))
        self.new = [self.scenario, "--seed", "7"]

    def start(self, *arguments, name="weir"):
        """Starts `weir run` with the database `name`.db."""
        places = ["--db", self.folder / f"{name}.db", "--out", self.folder / f"out-{name}"]
        variables = {"TMPDIR": str(self.folder / "tmp"), "WEIR_STATE_DIR": str(self.folder / "state")}
        with open(self.folder / "said", "wb") as said:
            # weir itself is not pinned, because it pins its child processes to CPUs.
            process = self.rig.processes.start([self.rig.weir, "run", *arguments, *places], None, said, said, variables)
        self.labs.append(process.pid)
        return process

    def finish(self, *arguments, name="weir"):
        """Runs `weir run` until it exits. Returns the exit code."""
        process = self.start(*arguments, name=name)
        code = process.wait(timeout=600)
        self.rig.processes.started.remove(process)
        return code

    def kill(self, process, pause_s):
        """Kills the process after `pause_s`. Returns whether it was still running."""
        try:
            process.wait(pause_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        code = process.wait()
        self.rig.processes.started.remove(process)
        return code == -signal.SIGKILL

    def look(self, pattern):
        """The files that match, with their modification times."""
        try:
            return {path: mtime(path) for path in self.folder.glob(pattern)} if pattern else {}
        except FileNotFoundError:
            # A folder was removed during the search.
            return {}

    def query(self, sql, name="weir"):
        """Rows of a database; none if its tables do not exist yet."""
        database = self.folder / f"{name}.db"
        if not database.exists():
            return []
        connection = sqlite3.connect(database, timeout=60)
        try:
            return connection.execute(sql).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise
        finally:
            connection.close()

    def kept(self):
        """Finished cells: (run, cell, start time)."""
        return set(self.query("SELECT run_id, cell, started_unix_ms FROM cells"))

    def keys(self, name):
        """The keys of finished cells."""
        return self.query("SELECT cell, gateway, axes, repeat FROM cells JOIN plan USING (run_id, cell) ORDER BY cell", name)

    def listened_on(self):
        """All loopback ports that parts of finished cells used."""
        texts = [document for (document,) in self.query("SELECT document FROM cells")]
        return {int(port) for text in texts for port in re.findall(r"127\.0\.0\.1:(\d+)", text)}

    def left(self):
        """Leftovers of the runs, by kind."""
        ids = {run for (run,) in self.query("SELECT id FROM runs")}
        return {
            "processes": self.processes(),
            "control groups": [str(path) for path in groups() if named_after(path.name, ids, self.labs)],
            "network namespaces": [name for name in namespaces() if named_after(name, ids, self.labs)],
            "temporary files": sorted(os.listdir(self.folder / "tmp")),
            "ledgers": [name for name in os.listdir(self.folder / "state") if name != "host.lock"],
            "locks": [] if self.lock_is_free() else ["host.lock"],
        }

    def processes(self):
        """Processes with this folder in their command line or environment. Descendants inherit the environment."""
        word, found = os.fsencode(self.folder), []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                if any(word in read(entry / name) for name in ("cmdline", "environ")):
                    found.append(f"{entry.name}: {read(entry / 'cmdline').replace(bytes(1), b' ').decode(errors='replace')}")
        return found

    def lock_is_free(self):
        path = self.folder / "state" / "host.lock"
        if not path.exists():
            return True
        with open(path, "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def groups():
    """All control groups of all hierarchies."""
    return [pathlib.Path(folder) / name for folder, names, _ in os.walk("/sys/fs/cgroup") for name in names]


def namespaces():
    folder = pathlib.Path("/run/netns")
    return os.listdir(folder) if folder.exists() else []


def named_after(name, runs, labs):
    """Whether a name belongs to a run: it contains the run's ID, or the lab's process ID between hyphens."""
    return any(run in name for run in runs) or (
        name.startswith("weir-") and any(str(lab) in name.split("-") for lab in labs))


def is_listening(port):
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", port)) == 0


def await_sign(yard, process, pattern, before, times):
    """Waits until `times` matching files have appeared or changed, or the process has ended."""
    seen = set()
    while process.poll() is None and len(seen) < times:
        seen |= {path for path, changed in yard.look(pattern).items() if before.get(path) != changed}
        time.sleep(0.002)


def mtime(path):
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def kill_once(yard, rng, sign):
    """Starts or resumes the run, and kills it at a random moment of this kind. Returns whether it was still running."""
    pattern, after_s_max = SIGNS[sign]
    what = ["--resume", "last"] if yard.query("SELECT id FROM runs") else yard.new
    if sign == "reporting" and not yard.query("SELECT id FROM runs WHERE ended_unix_ms IS NOT NULL"):
        yard.finish(*what)
        what = ["--resume", "last"]
    before = yard.look(pattern)
    process = yard.start(*what)
    if pattern:
        # If each cell writes such files, sometimes wait for a second one.
        times = rng.choice([1, 1, 2]) if pattern.startswith("tmp/weir-work-*/") else 1
        await_sign(yard, process, pattern, before, times)
    return yard.kill(process, rng.uniform(0, after_s_max))


def hundred_kills(rig):
    """A run that is killed (SIGKILL) at random times and always resumed has the same cells as an uninterrupted run."""
    yard, rng = Yard(rig, "kills"), random.Random(SEED)
    kills = 12 if rig.quick else KILLS
    # Reports are written after all cells, so only the last tenth of the kills is aimed at reports.
    early = [sign for sign in SIGNS if sign != "reporting"]
    signs = [rng.choice(early) if number < kills * 9 // 10 else "reporting" for number in range(kills)]
    hit, lost, kept, between = dict.fromkeys(SIGNS, 0), 0, set(), 0
    for sign in signs:
        hit[sign] += kill_once(yard, rng, sign)
        now = yard.kept()
        lost += len(kept - now)
        kept, between = now, between if sign == "reporting" else len(now)
    words = ", ".join(f"{sign} {count} of {signs.count(sign)}" for sign, count in hit.items())
    expect(sum(hit.values()) >= kills * 3 // 4, f"{sum(hit.values())} of {kills} kills (seed {SEED}) hit a running lab: {words}")
    expect(lost == 0, f"{between} cells were finished between kills, {len(kept) - between} after them; {lost} were lost or measured again")
    # After the last kill only the guard cleans up.
    left = await_nothing(yard)
    expect(not any(left.values()), "after the last kill nothing is left over: " + counts(left))
    ends(yard)
    yield


def ends(yard):
    """Checks that the killed run ends like an uninterrupted run."""
    codes = yard.finish("--resume", "last"), yard.finish(*yard.new, name="unbroken")
    expect(set(codes) <= {0, 1, 4}, f"exit codes of the last resume and of an uninterrupted run of the same scenario: {codes}")
    keys, unbroken = yard.keys("weir"), yard.keys("unbroken")
    ((runs,),) = yard.query("SELECT count(*) FROM runs")
    expect(runs == 1 and keys == unbroken, f"{len(keys)} cells in {runs} run, {len(unbroken)} in the uninterrupted run: the same cells, each once")
    failed = yard.query("SELECT cause, message FROM cells WHERE outcome = 'failed'")
    expect(not failed, f"{len(failed)} cells failed {failed or ''}")
    ((integrity,),) = yard.query("PRAGMA integrity_check")
    expect(integrity == "ok", f"PRAGMA integrity_check: {integrity}")
    left = yard.left()
    expect(not any(left.values()), "at the end nothing is left over: " + counts(left))
    ports = yard.listened_on()
    open_ports = [port for port in ports if is_listening(port)]
    expect(not open_ports, f"{len(open_ports)} of {len(ports)} ports of parts still listen {open_ports or ''}")
    reports = sorted(os.listdir(yard.folder / "out-weir"))
    expect("report.html" in reports and not any(name.endswith(".part") for name in reports), f"reports: {', '.join(reports)}")


def await_nothing(yard):
    """Waits at most 30 s until the guard has removed everything. Returns the leftovers."""
    deadline = time.monotonic() + 30
    while any((left := yard.left()).values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def counts(left):
    return ", ".join(f"{len(found)} {kind}{f' {found}' if found else ''}" for kind, found in left.items())


SUITES = ["crash::", "places::", "misbehaving::", "two_runs::"]


def hosts_that_turn_on_a_run(rig):
    """Full and read-only disks, locked and damaged databases, misbehaving gateways, two concurrent runs."""
    command = ["cargo", "test", "--locked", "-p", "weir", "--test", "it", "--", *SUITES]
    subprocess.run(["cargo", "build", "--locked", "-p", "weir", "-p", "weir-gateway"], cwd=ROOT, check=True)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    results = re.findall(r"^test (\S+) \.\.\. (\w+)", done.stdout, re.MULTILINE)
    for name, result in results:
        print(f"    {'ok  ' if result == 'ok' else 'NOT '} {name.replace('::', ': ').replace('_', ' ')}")
    passed = sum(result == "ok" for _, result in results)
    if done.returncode != 0:
        print(done.stdout[-8_000:] + done.stderr[-2_000:])
    expect(done.returncode == 0 and passed == len(results) > 0, f"{passed} of {len(results)} tests passed")
    yield


CHECKS = [hundred_kills, hosts_that_turn_on_a_run]
