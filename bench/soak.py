#!/usr/bin/env python3
"""Runs one weir-gateway for minutes or hours under all kinds of clients, during all kinds of changes.

Clients are steady loads by `weir load` (kept connections and one per request, plain HTTP and TLS), and unusual clients:
large bodies in both directions, tunnels, slow clients, clients that disconnect or fall silent during a request.
Meanwhile the configuration is reloaded by the watch and by SIGHUP (workers, endpoints and a listener change), invalid
files are rejected, certificates change, the access log is renamed, and origins are killed and restarted.

No request may fail unexpectedly. The gateway's counters and access log must agree exactly with the clients. Memory,
descriptors and threads must not grow over the last two thirds; at rest, descriptors and threads must return to their
initial values. Expected failures are printed with reasons and counts; each killed origin may cause one per client. A
soak takes ten minutes; SOAK=8h takes longer, SOAK_SECONDS=60 is for a first look. Exit code 1 if a check misses.
"""

import argparse
import asyncio
import os
import signal
import tempfile
from pathlib import Path

import ledger
import surroundings
from growth import Growth, mebibytes, soak_seconds
from ledger import Ledger
from loads import Shape, weir_options, weir_result
from processes import Done, Failed, Processes, memory_bytes
from soak_changes import MORTAL_KILLS, Changes
from soak_clients import Clients
from soak_site import SILENCE_S, Site

SECONDS_MIN = 30
# Limits on growth, from the slope over the last two thirds of the run. In ten minutes, a leak of 1 KiB per request at
# 2,000/s is 200 times the memory limit, and a leak of a descriptor per reload is 10 times the descriptor limit. The
# limits allow for the varying number of clients. At rest no additional descriptor or thread is allowed.
MEMORY_BYTES_GROWN_MAX = 4 << 20
DESCRIPTORS_GROWN_MAX = 60
THREADS_GROWN_MAX = 2
LOAD_BYTES_GROWN_MAX = 1 << 20
# Time for a load to end after its duration, and for clients to finish their last exchange.
END_WITHIN_S = 60
# name -> (requests per second, connections, TLS, one connection per request, path)
LOADS = {
    "kept connections": (1_000, 16, False, False, "/steady"),
    "kept connections, TLS": (400, 16, True, False, "/steady"),
    "connection per request": (150, 8, False, True, "/steady"),
    "connection per request, TLS": (50, 8, True, True, "/steady"),
    "kept connections, killed origins": (400, 16, False, False, "/churning"),
}


class Load:
    """A steady load by `weir load`, over the whole soak."""

    def __init__(self, site, name, seconds):
        rate, connections, is_secure, is_once, path = LOADS[name]
        self.name = name
        shape = Shape(connections, rate, tls=is_secure)
        url = shape.url(site.ports["tls" if is_secure else "plain"], path)
        options = [*weir_options(shape), "--duration", f"{seconds}s", *["--per-connection", 1] * is_once]
        place = site.work / "logs" / name.replace(" ", "-")
        self.output, self.errors = place.with_suffix(".json"), place.with_suffix(".errors")
        with open(self.output, "wb") as output, open(self.errors, "wb") as errors:
            self.process = site.processes.start([site.binaries["weir"], "load", url, *options], None, output, errors)
        self.memory = Growth(f"memory of `weir load`, {name}", LOAD_BYTES_GROWN_MAX, mebibytes)

    def has_ended(self):
        return self.process.poll() is not None

    def enter(self, books):
        """Adds the requests of this load and their outcomes to the ledger."""
        output, errors = self.output.read_text(), self.errors.read_text()
        result = weir_result(Done(self.process.returncode, output, errors, 0, 0))
        requests = result["requests"]
        good = requests["completed"] - requests["unexpected"]
        books.add(self.name, ledger.ANSWERED, good)
        if bad := requests["scheduled"] - good:
            books.fail(self.name, f"{requests}, {result['status']}, {result['errors']}, {result.get('said')}", bad)


class Soak:
    """The whole soak, from the first process to the verdicts."""

    def __init__(self, processes, binaries, work, seconds):
        self.seconds = seconds
        self.site = Site(processes, binaries, work)
        self.books = Ledger()
        ports = self.site.ports
        self.clients = Clients(ports["plain"], ports["tls"], self.books, 4 * SILENCE_S)
        self.changes = Changes(self.site, self.clients, self.books)
        self.memory = Growth("resident memory", MEMORY_BYTES_GROWN_MAX, mebibytes)
        self.descriptors = Growth("open descriptors", DESCRIPTORS_GROWN_MAX)
        self.threads = Growth("threads", THREADS_GROWN_MAX)
        self.loads = []
        self.missed = []

    async def run(self):
        await self.site.start()
        await self.changes.through_all()
        before = await self.site.rest()
        self.loads = [Load(self.site, name, self.seconds) for name in LOADS]
        tasks = [asyncio.create_task(self.changes.go_on()), *self.clients.started()]
        await self.sample(tasks)
        self.clients.stopping.set()
        await asyncio.wait_for(asyncio.gather(*tasks), END_WITHIN_S)
        await self.end_loads()
        await self.changes.settle()
        after = await self.site.rest()
        stats = await self.last_stats()
        self.site.signal(signal.SIGTERM)
        code = await asyncio.to_thread(self.site.process.wait, END_WITHIN_S)
        self.site.access_log.read()
        self.report(stats, before, after, code)

    async def sample(self, tasks):
        """Samples the process once per second until the end of the soak."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while (at_s := loop.time() - began_s) < self.seconds:
            if ended := [task for task in tasks if task.done()]:
                await asyncio.gather(*ended)
                raise Failed("a client has ended too early")
            resident = memory_bytes(self.site.process.pid)
            if not resident:
                raise Failed(f"the gateway has ended\n{self.site.messages.read_text()[-2000:]}")
            threads, descriptors = self.site.threads_and_descriptors()
            for growth, value in ((self.memory, resident), (self.descriptors, descriptors), (self.threads, threads)):
                growth.add(at_s, value)
            for load in self.loads:
                if size := memory_bytes(load.process.pid):
                    load.memory.add(at_s, size)
            self.site.access_log.read()
            if self.books.failed():
                # Stop now, because the soak may take hours and the failure can be inspected now.
                print(f"stopped after {at_s:,.0f} s: a request failed unexpectedly", flush=True)
                return
            await asyncio.sleep(1)

    async def end_loads(self):
        """Waits for the end of the loads. A load that still runs is interrupted and reports a partial result."""
        await asyncio.sleep(1)
        for load in self.loads:
            if not load.has_ended():
                load.process.send_signal(signal.SIGINT)
        deadline = asyncio.get_running_loop().time() + END_WITHIN_S
        while not all(load.has_ended() for load in self.loads):
            if asyncio.get_running_loop().time() > deadline:
                raise Failed("weir load did not end")
            await asyncio.sleep(0.1)
        for load in self.loads:
            load.enter(self.books)

    async def last_stats(self):
        """The counters after the last line of the access log is written."""
        wanted = self.books.expected()["lines of the access log"]
        for _ in range(100):
            self.site.access_log.read()
            if self.site.access_log.count() >= wanted:
                break
            await asyncio.sleep(0.1)
        return self.site.stats()

    def report(self, stats, before, after, code):
        """Prints the results and records missed checks."""
        self.report_exchanges()
        print("\nchanges:")
        for name, count in self.changes.done.items():
            print(f"  {count:>9,} {name}")
        print("\ngateway compared with clients:")
        self.report_counts(stats)
        print("\ngrowth over the last two thirds:")
        for growth in (self.memory, self.descriptors, self.threads, *(load.memory for load in self.loads)):
            self.hold(growth.line(), growth.is_good(), verdict="")
        print("\nat rest, before the first client and after the last:")
        for name, was, now in zip(("threads", "open descriptors"), before, after):
            self.hold(f"{name}: {was}, {now}", now <= was)
        self.hold(f"exit code {code} after SIGTERM", code == 0)
        strange = self.site.strange_lines()
        self.hold("unexpected messages: " + ("; ".join(strange[:5]) or "none"), not strange)

    def report_exchanges(self):
        print(f"\n{self.books.exchanges():,} exchanges:")
        for kind, outcome, count in self.books.rows():
            print(f"  {count:>9,} {kind}: {outcome}")
        print("\nfailures:")
        for said in self.books.said:
            print(f"  {said}")
        self.hold(f"{self.books.failed():,} unexpected failures", not self.books.failed())
        kills = self.changes.done[MORTAL_KILLS]
        for outcome, why in ledger.LEGITIMATE.items():
            count = sum(seen for (_, of), seen in self.books.seen.items() if of == outcome)
            print(f"  {count:>9,} expected: {why}")
        for kind, (_, clients, _) in self.clients.kinds().items():
            if found := self.books.legitimate(kind):
                self.hold(f"{kind}: {found:,}, at most one per client ({clients}) and kill ({kills})", found <= clients * kills)

    def report_counts(self, stats):
        expected, counted = self.books.expected(), ledger.counted(stats)
        for name, value in expected.items():
            self.hold(f"{name}: clients {value:,}, gateway {counted[name]:,}", counted[name] == value)
        for name, _, value in ledger.differences(expected, counted):
            if name not in expected:
                self.hold(f"{name}: clients 0, gateway {value:,}", False)
        log = self.site.access_log
        wanted = expected["lines of the access log"]
        self.hold(f"lines in the files of the access log: {log.count():,}", log.count() == wanted)
        for cause, count in log.causes().items():
            # If a client disconnects while it sends its request headers, the gateway writes no line.
            silent = sum(seen for (_, of), seen in self.books.seen.items() if of == ledger.LEFT_IN_HEAD)
            value = expected[f"error {cause}"] - (silent if cause == "client_closed" else 0)
            if cause != "-":
                self.hold(f"lines with {cause}: {count:,}", count == value)
        lost = stats["access_log"]["dropped"] + stats["access_log"]["failed"]
        self.hold(f"lines lost: {lost}", lost == 0)
        for name, wanted, found in zip(("applied", "refused"), self.changes.reloads(), stats["reloads"].values()):
            self.hold(f"reloads {name}: requested {wanted}, gateway {found}", wanted == found)
        upstream = stats["upstream"]
        # If there were no retries, no origin was killed during a request, and the soak tested nothing.
        self.hold(f"retries: {upstream['retries']:,}", upstream["retries"] > 0)
        over = upstream["retries_over_budget"]
        self.hold(f"retries over budget: {over:,}", over == 0)

    def hold(self, line, is_good, verdict=None):
        """Prints `line` with its verdict, and records it as missed unless `is_good`."""
        verdict = (": met" if is_good else ": MISSED") if verdict is None else verdict
        print(f"  {line}{verdict}")
        if not is_good:
            self.missed.append(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin-dir", type=Path, default=surroundings.BUILT, help="folder of weir and weir-gateway")
    parser.add_argument("--seconds", type=int, help="length (default: SOAK_SECONDS or SOAK, else 600)")
    arguments = parser.parse_args()
    seconds = arguments.seconds or soak_seconds(os.environ)
    if seconds < SECONDS_MIN:
        parser.error(f"--seconds must be at least {SECONDS_MIN}")
    binaries = surroundings.find_binaries(arguments.bin_dir, ["weir", "weir-gateway"])
    print(f"{seconds:,} s.\n{surroundings.environment(binaries)}", end="", flush=True)
    with tempfile.TemporaryDirectory(prefix="weir-soak-") as work, Processes() as processes:
        soak = Soak(processes, binaries, Path(work), seconds)
        asyncio.run(soak.run())
    print(f"\nMISSED: {'; '.join(soak.missed) or 'none'}")
    return 1 if soak.missed else 0


if __name__ == "__main__":
    surroundings.run_main(main, "soak")
