"""Changes of a gateway and its origins during a soak, one after another. Checks that each change takes effect."""

import asyncio
import contextlib
import signal
from collections import Counter

import ledger
from processes import Failed
from soak_site import Shape

PAUSE_S = 0.3
# A removed listener still accepts pending connections for a second, and its address is free a second later. Until then
# a configuration with this address is rejected.
ADDRESS_FREE_AFTER_S = 4
# (workers, endpoints of `churning`, endpoints of `odd`, has_further_listener). Endpoint 0 is always included.
SHAPES = [
    (2, (0, 1, 2), (0, 1), False),
    (3, (0, 2), (0, 1), True),
    (1, (0, 1), (0,), True),
    (2, (0, 1, 2), (0, 1), False),
    (3, (0, 1, 2), (0,), False),
    (2, (0, 2, 1), (0, 1), True),
]
RELOAD_BY_WATCH, RELOAD_BY_SIGNAL = "reloads by the watch", "reloads by SIGHUP"
REFUSED, CERTIFICATES, ROTATIONS = "configurations rejected", "certificates changed", "access logs renamed"
KILLS, MORTAL_KILLS = "origins killed", "origins killed with requests in flight"
KIND = "reads the active configuration's mark"


class Changes:
    """Makes changes one after another until it is stopped."""

    def __init__(self, site, clients, books):
        self.site, self.clients, self.books = site, clients, books
        self.done = Counter()
        self.mark = 0
        self.turn = 0
        self.has_further_listener = False
        self.listener_left_s = 0

    async def go_on(self):
        while not self.clients.stopping.is_set():
            for change in (self.reshape, self.kill_churning, self.certify, self.reshape, self.kill_mortal, self.refuse, self.rotate):
                await change()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self.clients.stopping.wait(), PAUSE_S)
                if self.clients.stopping.is_set():
                    return
            self.turn += 1

    async def through_all(self):
        """Applies every shape once, and then the first again. This allocates the memory that the process keeps per shape."""
        for _ in SHAPES:
            await self.reshape()
        await self.settle()

    async def settle(self):
        """Applies the first of `SHAPES`."""
        await self.reshape(SHAPES[0])

    async def reshape(self, shape=None):
        """Writes another configuration. The gateway reloads when the file changes, and again on SIGHUP."""
        self.mark += 1
        workers, churning, odd, further = shape or SHAPES[self.mark % len(SHAPES)]
        await self.wait_for_address(further)
        self.site.write(self.site.configuration(Shape(workers, churning, odd, further, self.mark)))
        await self.site.said("reloaded ")
        self.done[RELOAD_BY_WATCH] += 1
        await self.see(self.mark)
        # The same file again: the gateway reads and activates it although nothing has changed.
        self.site.signal(signal.SIGHUP)
        await self.site.said("reloaded ")
        self.done[RELOAD_BY_SIGNAL] += 1
        await self.see(self.mark)

    async def wait_for_address(self, has_further_listener):
        """Before a change adds the additional listener again, waits until its address is free."""
        now_s = asyncio.get_running_loop().time()
        if has_further_listener and not self.has_further_listener:
            await asyncio.sleep(max(0, self.listener_left_s + ADDRESS_FREE_AFTER_S - now_s))
        if self.has_further_listener and not has_further_listener:
            self.listener_left_s = now_s
        self.has_further_listener = has_further_listener

    async def see(self, mark):
        """Checks that responses now come from the active configuration."""

        async def ask(connection):
            text = await connection.text("GET", "/mark")
            if text != str(mark):
                raise Failed(f"the response is `{text}` after `{mark}` took effect")
            return ledger.ANSWERED

        await self.clients.once(KIND, ask, is_secure=mark % 2 == 1)

    async def kill_churning(self):
        """Kills and restarts an origin whose requests are all retried. The first origin is never killed."""
        await self.kill(self.site.churning[1 + self.turn % 2], KILLS)

    async def kill_mortal(self):
        await self.kill(self.site.mortal[self.turn % 2], MORTAL_KILLS)

    async def kill(self, origin, name):
        self.done[name] += 1
        origin.kill()
        await asyncio.sleep(PAUSE_S)
        await origin.start()

    async def certify(self):
        """Installs another certificate, which new connections must get."""
        folder = self.site.certificates[(self.done[CERTIFICATES] + 1) % len(self.site.certificates)]
        self.site.link(folder)
        await self.site.said("files reloaded: ", "reloaded ")
        self.done[CERTIFICATES] += 1

        async def ask(connection):
            await connection.text("GET", "/mark")
            if connection.certificate() != self.site.der(folder):
                raise Failed("the gateway presents the previous certificate after a new one took effect")
            return ledger.ANSWERED

        await self.clients.once(KIND, ask, is_secure=True)

    async def refuse(self):
        """Writes an invalid configuration, which must change nothing."""
        self.site.write({**self.site.configuration(Shape()), "nonsense": 1})
        await self.site.said("the previous configuration stays active")
        self.done[REFUSED] += 1
        await self.see(self.mark)
        await self.reshape()

    async def rotate(self):
        """Renames the access log, and has the gateway open a new one."""
        former = self.site.log_path.with_suffix(".former")
        self.site.log_path.rename(former)
        self.site.signal(signal.SIGUSR1)
        await self.site.said("access log reopened")
        self.site.access_log.renamed()
        former.unlink()
        self.done[ROTATIONS] += 1

    def reloads(self):
        """Reloads that the gateway must have counted: (applied, rejected)."""
        return sum(self.done[name] for name in (RELOAD_BY_WATCH, RELOAD_BY_SIGNAL, CERTIFICATES)), self.done[REFUSED]
