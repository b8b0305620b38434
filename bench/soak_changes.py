"""What is done to a gateway and its origins during a soak, one change after the other; each is seen to take effect."""

import asyncio
import contextlib
import signal
from collections import Counter

import ledger
from processes import Failed
from soak_site import Shape

PAUSE_S = 0.3
# A listener that has gone takes who is on the way for a second, and its address is free a second later; a configuration
# that wants it sooner is refused.
ADDRESS_FREE_AFTER_S = 4
# Workers, endpoints that churn, endpoints of odd clients, a further listener. The first of each stands always.
SHAPES = [
    (2, (0, 1, 2), (0, 1), False),
    (3, (0, 2), (0, 1), True),
    (1, (0, 1), (0,), True),
    (2, (0, 1, 2), (0, 1), False),
    (3, (0, 1, 2), (0,), False),
    (2, (0, 2, 1), (0, 1), True),
]
RELOAD_BY_WATCH, RELOAD_BY_SIGNAL = "reloads by the file's change", "reloads by SIGHUP"
REFUSED, CERTIFICATES, ROTATIONS = "configurations refused", "certificates changed", "access logs renamed"
KILLS, MORTAL_KILLS = "origins killed that churn", "origins killed that requests are in flight to"
KIND = "asks which configuration is active"


class Changes:
    """Makes changes, in turn, until it is stopped."""

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
        """Every shape once, then the first: what the process keeps of each, it has then."""
        for _ in SHAPES:
            await self.reshape()
        await self.settle()

    async def settle(self):
        """Comes back to the first shape."""
        await self.reshape(SHAPES[0])

    async def reshape(self, shape=None):
        """Another configuration, seen by the watch or read at a signal."""
        self.mark += 1
        workers, churning, odd, further = shape or SHAPES[self.mark % len(SHAPES)]
        await self.wait_for_address(further)
        self.site.write(self.site.configuration(Shape(workers, churning, odd, further, self.mark)))
        await self.site.said("reloaded ")
        self.done[RELOAD_BY_WATCH] += 1
        await self.see(self.mark)
        # The same file again: nothing is different, and all of it is read and swapped.
        self.site.signal(signal.SIGHUP)
        await self.site.said("reloaded ")
        self.done[RELOAD_BY_SIGNAL] += 1
        await self.see(self.mark)

    async def wait_for_address(self, has_further_listener):
        """Waits until the address of the further listener is free, where it comes back."""
        now_s = asyncio.get_running_loop().time()
        if has_further_listener and not self.has_further_listener:
            await asyncio.sleep(max(0, self.listener_left_s + ADDRESS_FREE_AFTER_S - now_s))
        if self.has_further_listener and not has_further_listener:
            self.listener_left_s = now_s
        self.has_further_listener = has_further_listener

    async def see(self, mark):
        """From now on every response follows the active configuration."""

        async def ask(connection):
            text = await connection.text("GET", "/mark")
            if text != str(mark):
                raise Failed(f"the response is `{text}` after `{mark}` took effect")
            return ledger.ANSWERED

        await self.clients.once(KIND, ask, is_secure=mark % 2 == 1)

    async def kill_churning(self):
        """Kills an origin whose requests are all sent again, and starts it again. The first one never dies."""
        await self.kill(self.site.churning[1 + self.turn % 2], KILLS)

    async def kill_mortal(self):
        await self.kill(self.site.mortal[self.turn % 2], MORTAL_KILLS)

    async def kill(self, origin, name):
        self.done[name] += 1
        origin.kill()
        await asyncio.sleep(PAUSE_S)
        await origin.start()

    async def certify(self):
        """Another certificate, which clients that connect from then on meet."""
        folder = self.site.certificates[(self.done[CERTIFICATES] + 1) % len(self.site.certificates)]
        self.site.link(folder)
        await self.site.said("files reloaded: ", "reloaded ")
        self.done[CERTIFICATES] += 1

        async def ask(connection):
            await connection.text("GET", "/mark")
            if connection.certificate() != self.site.der(folder):
                raise Failed("a former certificate is shown after another came into force")
            return ledger.ANSWERED

        await self.clients.once(KIND, ask, is_secure=True)

    async def refuse(self):
        """A configuration that is wrong changes nothing."""
        self.site.write({**self.site.configuration(Shape()), "nonsense": 1})
        await self.site.said("the previous configuration stays active")
        self.done[REFUSED] += 1
        await self.see(self.mark)
        await self.reshape()

    async def rotate(self):
        """The access log is renamed, and another one opened."""
        former = self.site.log_path.with_suffix(".former")
        self.site.log_path.rename(former)
        self.site.signal(signal.SIGUSR1)
        await self.site.said("access log reopened")
        self.site.access_log.renamed()
        former.unlink()
        self.done[ROTATIONS] += 1

    def reloads(self):
        """Those that the gateway must have counted, as applied and as refused."""
        return sum(self.done[name] for name in (RELOAD_BY_WATCH, RELOAD_BY_SIGNAL, CERTIFICATES)), self.done[REFUSED]
