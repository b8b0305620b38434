"""Starts and stops the programs under measurement, pins them to CPUs, and reads their CPU time and memory."""

import ctypes
import os
import re
import resource
import select
import signal
import subprocess
import time
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PR_SET_PDEATHSIG = 1
MEMORY_EVERY_S = 0.1
# Loaded before any fork, because loading a library in a forked child is not safe.
LIBC = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """The environment prevents a measurement. The text has the reason and the remedy."""


class Done:
    """A program that has ended. Its two outputs are separate, because one may be JSON."""

    def __init__(self, code, output, errors, cpu_s, memory_bytes_peak):
        self.code, self.output, self.errors = code, output, errors
        self.cpu_s, self.memory_bytes_peak = cpu_s, memory_bytes_peak

    def said(self):
        return f"{self.output}\n{self.errors}".strip()


class Processes:
    """All started programs. They are stopped by process ID at the end of the context, also after an error."""

    def __init__(self):
        self.started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            end(process)
        self.started.clear()

    def start(self, command, cpu, log, errors=subprocess.STDOUT, variables=None):
        """Starts a program bound to one or several CPUs (None: any). Ctrl-C does not reach its new session."""
        parent = os.getpid()

        def prepare():
            if cpu is not None:
                os.sched_setaffinity(0, {cpu} if isinstance(cpu, int) else cpu)
            # Thousands of connections need thousands of file descriptors.
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            # If this program is killed, the kernel signals its children.
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(1)

        try:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=errors,
                env=dict(os.environ, **variables) if variables else None,
                start_new_session=True,
                preexec_fn=prepare,
            )
        except OSError as error:
            raise Failed(f"cannot start {command[0]}: {error}") from error
        self.started.append(process)
        return process

    def run(self, command, cpu, log_path, timeout_s, watch_memory=False, variables=None):
        """Runs a program until it exits."""
        log_path = Path(log_path)
        errors_path = log_path.with_name(log_path.name + ".errors")
        with open(log_path, "wb") as log, open(errors_path, "wb") as errors:
            process = self.start(command, cpu, log, errors, variables)
        deadline = time.monotonic() + timeout_s
        memory_bytes_peak = 0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                self.end(process)
                said = log_path.read_text(errors="replace") + errors_path.read_text(errors="replace")
                raise Failed(f"{command[0]} did not end within {timeout_s:.0f} s:\n{said}")
            if watch_memory:
                memory_bytes_peak = memory_bytes(process.pid, "VmHWM") or memory_bytes_peak
            wait_for_end(process.pid, MEMORY_EVERY_S if watch_memory else deadline - time.monotonic())
        process.returncode = os.waitstatus_to_exitcode(status)
        self.started.remove(process)
        output, errors = (path.read_text(errors="replace") for path in (log_path, errors_path))
        return Done(process.returncode, output, errors, usage.ru_utime + usage.ru_stime, memory_bytes_peak)

    def end(self, process):
        """Stops one of the programs."""
        end(process)
        self.started.remove(process)

    def kill(self, process):
        """Kills one of the programs to simulate a crash."""
        process.kill()
        process.wait()
        self.started.remove(process)

    def cpu_s(self):
        """CPU seconds of all running programs, and of this process including its ended children."""
        own = os.times()
        running = sum(tree_cpu_s(process.pid) for process in self.started)
        return running + own.user + own.system + own.children_user + own.children_system


def wait_for_end(pid, seconds):
    """Sleeps until a child has ended, at most `seconds`. Polling every 10 ms would use 1 % of two CPUs."""
    file = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(file, select.POLLIN)
        poll.poll(max(0.0, seconds) * 1000)
    finally:
        os.close(file)


def end(process):
    """Sends SIGTERM to a process; after three seconds kills it and its descendants."""
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
    """The fields of /proc/PID/stat after the name, or None if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(")") + 2 :].split()


def start_time(pid):
    fields = stat_fields(pid)
    return fields and fields[19]


def descendants(pid):
    """All descendants of a process: (process ID, start time). The start time detects a reused ID."""
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
    """User and system CPU seconds of a process and its descendants, including ended children."""
    total = 0
    for member in [pid] + [child for child, _ in descendants(pid)]:
        if fields := stat_fields(member):
            total += sum(map(int, fields[11:15]))
    return total / TICKS_PER_S


def memory_bytes(pid, field="VmRSS"):
    """A size from /proc/PID/status, or None if the process has ended.

    ru_maxrss is not usable, because it starts with the size of the parent at the fork.
    """
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    line = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(line[1]) * 1024 if line else None


def tree_memory_bytes(pid):
    """Resident memory of a process and its descendants. Memory that they share counts once."""
    children = [child for child, _ in descendants(pid)]
    if not children:
        return memory_bytes(pid) or 0
    return sum(proportional_bytes(member) for member in [pid, *children])


def proportional_bytes(pid):
    """Proportional set size (PSS) of a process, with its part of shared memory; 0 if it has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    line = re.search(r"^Pss:\s+(\d+) kB$", text, re.MULTILINE)
    return int(line[1]) * 1024 if line else 0
