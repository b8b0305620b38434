"""Starting, pinning, accounting and ending of the programs under measurement."""

import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PR_SET_PDEATHSIG = 1
# Loaded before any fork: loading a library in the child of a fork is not safe.
LIBC = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """The environment can't; the text says what and what to do."""


class Processes:
    """Everything that was started; ends all of it by pid, whatever happens."""

    def __init__(self):
        self.started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            end(process)
        self.started.clear()

    def start(self, command, cpu, log):
        """Starts a program bound to one CPU, in a session of its own so that Ctrl-C reaches only us."""
        parent = os.getpid()

        def prepare():
            os.sched_setaffinity(0, {cpu})
            # When we are killed, the children get a signal from the kernel.
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(1)

        try:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=prepare,
            )
        except OSError as error:
            raise Failed(f"cannot start {command[0]}: {error}") from error
        self.started.append(process)
        return process

    def run(self, command, cpu, log_path, timeout_s):
        """Runs a program to its end; gives its exit code, output and CPU seconds."""
        with open(log_path, "wb") as log:
            process = self.start(command, cpu, log)
        deadline = time.monotonic() + timeout_s
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                end(process)
                self.started.remove(process)
                raise Failed(f"{command[0]} did not end within {timeout_s:.0f} s:\n{Path(log_path).read_text()}")
            time.sleep(0.01)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.started.remove(process)
        output = Path(log_path).read_text(errors="replace")
        return process.returncode, output, usage.ru_utime + usage.ru_stime

    def cpu_s(self):
        """CPU seconds of all that runs, and of ourselves with the children that have ended."""
        own = os.times()
        running = sum(tree_cpu_s(process.pid) for process in self.started)
        return running + own.user + own.system + own.children_user + own.children_system


def end(process):
    """Asks a process to end, and makes it after three seconds; its children with it."""
    if process.poll() is not None:
        return
    family = descendants(process.pid)
    process.terminate()
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:
        for pid, started in family:
            if start_time(pid) == started:
                os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()


def stat_fields(pid):
    """The fields of /proc/PID/stat behind the name, or None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(")") + 2 :].split()


def start_time(pid):
    fields = stat_fields(pid)
    return fields and fields[19]


def descendants(pid):
    """All processes below this one, with their start times so that a reused pid is told apart."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := stat_fields(int(entry.name))):
            parents.setdefault(int(fields[1]), []).append((int(entry.name), fields[19]))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += [child for child, _ in children]
    return found


def tree_cpu_s(pid):
    """User and system CPU seconds of a process and everything below it."""
    total = 0
    for member in [pid] + [child for child, _ in descendants(pid)]:
        if fields := stat_fields(member):
            total += int(fields[11]) + int(fields[12])
    return total / TICKS_PER_S


class HostWatch:
    """How much of the host others took, and the hypervisor, between its making and `share`."""

    def __init__(self, processes):
        self.processes = processes
        self.before = self.look()

    def look(self):
        line = Path("/proc/stat").read_text().splitlines()[0]
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, line.split()[1:9])
        busy_s = (user + nice + system + irq + softirq) / TICKS_PER_S
        return time.monotonic(), busy_s, steal / TICKS_PER_S, self.processes.cpu_s()

    def share(self):
        """Steal plus CPU time of processes that are not ours, as a share of all CPUs."""
        now = self.look()
        wall_s, busy_s, steal_s, own_s = (after - before for before, after in zip(self.before, now))
        return (max(0.0, busy_s - own_s) + steal_s) / (wall_s * os.cpu_count())
