"""Realistic clients: large bodies, tunnels, slow clients, clients that disconnect or fall silent during a request.

Each kind is a coroutine that makes one exchange and returns its outcome (ledger.py). Any other result is an unexpected
failure.
"""

import asyncio
import contextlib
import random
import socket
import ssl
import zlib

import ledger
from soak_origin import checksum, pattern

MIB = 1 << 20
DOWNLOAD_BYTES, UPLOAD_BYTES = 4 * MIB, 2 * MIB
# More than the socket buffers hold, so that a client that does not read blocks the gateway.
ENDLESS_BYTES = 32 * MIB
EXCHANGE_WITHIN_S = 60
PAUSE_S = (0.05, 0.3)
# Response time of origins that are killed: long enough that several requests are in flight.
WAIT_MS = (20, 200)


class Unexpected(Exception):
    """The response is not the expected one."""


class Answer:
    """Status and headers of a response, and a reader of its body."""

    def __init__(self, head, reader):
        start, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(start.split(" ")[1])
        self.fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.reader = reader
        self.left = int(self.fields.get("content-length", 0))

    def cause(self):
        return self.fields.get("x-weir-error")

    async def blocks(self, most=256 << 10):
        while self.left:
            block = await self.reader.read(min(self.left, most))
            if not block:
                raise asyncio.IncompleteReadError(b"", self.left)
            self.left -= len(block)
            yield block

    async def checksum(self):
        length = crc = 0
        async for block in self.blocks():
            length, crc = length + len(block), zlib.crc32(block, crc)
        return f"{length} {crc:08x}"

    async def text(self):
        return b"".join([block async for block in self.blocks()]).decode()


class Connection:
    """One connection to the gateway."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, method, path, fields=()):
        head = [f"{method} {path} HTTP/1.1", "Host: soak.test", *fields, "", ""]
        await self.send("\r\n".join(head).encode())

    async def answer(self):
        head = await self.reader.readuntil(b"\r\n\r\n")
        return Answer(head[:-4], self.reader)

    async def text(self, method, path):
        """A small exchange that must return status 200."""
        await self.ask(method, path)
        answer = await self.answer()
        text = await answer.text()
        if answer.status != 200:
            raise Unexpected(f"{answer.status} {answer.cause()}")
        return text

    async def gone(self):
        """Reads until the connection is closed or fails."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while await self.reader.read(1 << 20):
                pass

    def certificate(self):
        """The gateway's certificate (DER)."""
        return self.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)


class Clients:
    """Makes exchanges with the listeners of a gateway, over plain HTTP and TLS."""

    def __init__(self, plain_port, tls_port, books, stalled_s):
        self.ports = {False: plain_port, True: tls_port}
        self.books = books
        # Longer than the gateway's timeouts for silent clients.
        self.stalled_s = stalled_s
        self.stopping = asyncio.Event()
        self.sums = {size: checksum(pattern(size)) for size in (DOWNLOAD_BYTES, UPLOAD_BYTES, MIB)}
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE

    def kinds(self):
        """Kinds of clients: name -> (exchange, number of clients, whether half of them use TLS)."""
        return {
            "kept connection": (self.kept, 4, True),
            "large download": (self.download, 2, True),
            "large upload": (self.upload, 2, True),
            "large upload in chunks": (self.upload_in_chunks, 2, True),
            "tunnel": (self.tunnel, 4, True),
            "slow reader": (self.read_slowly, 2, True),
            "slow sender": (self.send_slowly, 2, True),
            "disconnects in the headers": (self.leave_in_head, 1, False),
            "disconnects in the upload": (self.leave_in_upload, 2, True),
            "disconnects in the download": (self.leave_in_download, 2, True),
            "stops reading": (self.stop_reading, 1, False),
            "stalls in the headers": (self.stall_in_head, 1, False),
            "stalls in the body": (self.stall_in_body, 2, True),
            "requests a missing route": (self.ask_for_nothing, 1, False),
            "sends plain HTTP to TLS": (self.speak_plainly, 1, False),
            "GET from killed origins": (self.get_from_mortals, 12, True),
            "POST to killed origins": (self.post_to_mortals, 8, True),
            "download from killed origins": (self.download_from_mortals, 4, True),
        }

    def started(self):
        """All clients, as tasks that run until `stopping` is set."""
        return [
            asyncio.create_task(self.go_on(kind, exchange, has_secure and number % 2 == 1))
            for kind, (exchange, count, has_secure) in self.kinds().items()
            for number in range(count)
        ]

    async def go_on(self, kind, exchange, is_secure):
        while not self.stopping.is_set():
            await self.once(kind, exchange, is_secure)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), random.uniform(*PAUSE_S))

    async def once(self, kind, exchange, is_secure):
        """Makes one exchange of this kind, or several with the same outcome, and adds them to the ledger."""
        try:
            async with self.connected(is_secure) as connection:
                outcome = await asyncio.wait_for(exchange(connection), EXCHANGE_WITHIN_S)
        except (OSError, EOFError, Unexpected, ValueError, asyncio.LimitOverrunError, asyncio.TimeoutError) as error:
            self.books.fail(kind, f"{type(error).__name__}: {error}{', over TLS' if is_secure else ''}")
            return
        self.books.add(kind, *(outcome if isinstance(outcome, tuple) else (outcome,)))

    @contextlib.asynccontextmanager
    async def connected(self, is_secure):
        connection = await self.connect(is_secure)
        try:
            yield connection
        finally:
            connection.writer.close()
            with contextlib.suppress(OSError, EOFError, asyncio.TimeoutError):
                await asyncio.wait_for(connection.writer.wait_closed(), 5)

    async def connect(self, is_secure):
        client = socket.socket()
        client.setblocking(False)
        # Small, so that a client that does not read blocks the gateway soon.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self.ports[is_secure]))
        except OSError:
            client.close()
            raise
        tls = {"ssl": self.context, "server_hostname": "localhost"} if is_secure else {}
        return Connection(*await asyncio.open_connection(sock=client, limit=64 << 10, **tls))

    # Exchanges that must succeed.

    async def kept(self, connection):
        """Several exchanges over one connection."""
        for count in range(1, random.randint(3, 20)):
            await connection.ask("GET", "/odd/bytes/100")
            answer = await connection.answer()
            expect(answer, await answer.checksum(), checksum(pattern(100)))
            # After a reload with fewer workers, the workers that stop close their connections.
            if answer.fields.get("connection") == "close":
                break
            await asyncio.sleep(0.01)
        return ledger.ANSWERED, count

    async def download(self, connection):
        await connection.ask("GET", f"/odd/bytes/{DOWNLOAD_BYTES}")
        answer = await connection.answer()
        expect(answer, await answer.checksum(), self.sums[DOWNLOAD_BYTES])
        return ledger.ANSWERED

    async def upload(self, connection):
        await connection.ask("PUT", "/odd/take/0", [f"Content-Length: {UPLOAD_BYTES}"])
        for block in pattern(UPLOAD_BYTES):
            await connection.send(block)
        return await self.taken(connection)

    async def upload_in_chunks(self, connection):
        await connection.ask("POST", "/odd/take/0", ["Transfer-Encoding: chunked"])
        for block in pattern(UPLOAD_BYTES):
            at = random.randint(1, len(block) - 1)
            for part in (block[:at], block[at:]):
                await connection.send(b"%x\r\n%b\r\n" % (len(part), part))
        await connection.send(b"0\r\n\r\n")
        return await self.taken(connection)

    async def taken(self, connection):
        answer = await connection.answer()
        expect(answer, await answer.text(), self.sums[UPLOAD_BYTES])
        return ledger.ANSWERED

    async def tunnel(self, connection):
        """Exchanges bytes in both directions for a while, during changes of the gateway."""
        await connection.ask("GET", "/odd/echo/0", ["Connection: Upgrade", "Upgrade: echo"])
        answer = await connection.answer()
        if answer.status != 101:
            raise Unexpected(f"{answer.status} {answer.cause()} instead of 101")
        for _ in range(random.randint(5, 80)):
            data = random.randbytes(random.randint(1, 8 << 10))
            await connection.send(data)
            if await connection.reader.readexactly(len(data)) != data:
                raise Unexpected("the tunnel returned other bytes than were sent")
            await asyncio.sleep(0.1)
            if self.stopping.is_set():
                break
        return ledger.TUNNELLED

    async def read_slowly(self, connection):
        await connection.ask("GET", f"/odd/bytes/{MIB}")
        answer = await connection.answer()
        length = crc = 0
        async for block in answer.blocks(most=16 << 10):
            length, crc = length + len(block), zlib.crc32(block, crc)
            await asyncio.sleep(0.03)
        expect(answer, f"{length} {crc:08x}", self.sums[MIB])
        return ledger.ANSWERED

    async def send_slowly(self, connection):
        """Sends request headers and body byte by byte."""
        for byte in b"POST /odd/take/0 HTTP/1.1\r\nHost: soak.test\r\nContent-Length: 20\r\n\r\n" + b"x" * 20:
            await connection.send(bytes([byte]))
            await asyncio.sleep(0.01)
        answer = await connection.answer()
        expect(answer, await answer.text(), checksum([b"x" * 20]))
        return ledger.ANSWERED

    # Exchanges that the client aborts or lets time out.

    async def leave_in_head(self, connection):
        await connection.send(b"GET /odd/bytes/1 HTTP/1.1\r\nHost: so")
        return ledger.LEFT_IN_HEAD

    async def leave_in_upload(self, connection):
        await connection.ask("POST", "/odd/take/0", [f"Content-Length: {UPLOAD_BYTES}"])
        await connection.send(b"x" * 10_000)
        return ledger.LEFT_IN_UPLOAD

    async def leave_in_download(self, connection):
        await connection.ask("GET", f"/odd/bytes/{ENDLESS_BYTES}")
        answer = await connection.answer()
        expect(answer, None, None)
        await connection.reader.readexactly(10_000)
        connection.writer.transport.abort()
        return ledger.LEFT_IN_DOWNLOAD

    async def stop_reading(self, connection):
        await connection.ask("GET", f"/odd/bytes/{ENDLESS_BYTES}")
        answer = await connection.answer()
        expect(answer, None, None)
        await asyncio.sleep(self.stalled_s)
        try:
            await answer.checksum()
        except (ConnectionError, EOFError):
            return ledger.STOPPED_READING
        raise Unexpected("the whole response arrived although the client had stopped reading")

    async def stall_in_head(self, connection):
        await connection.send(b"GET /odd/bytes/1 HTTP/1.1\r\nHo")
        return await self.expect_rejection(connection, 408, "head_timeout", ledger.STALLED_IN_HEAD)

    async def stall_in_body(self, connection):
        await connection.ask("POST", "/odd/take/0", ["Content-Length: 1000"])
        await connection.send(b"x" * 10)
        return await self.expect_rejection(connection, 408, "body_timeout", ledger.STALLED_IN_BODY)

    async def ask_for_nothing(self, connection):
        await connection.ask("GET", "/nowhere")
        return await self.expect_rejection(connection, 404, "no_route", ledger.NO_ROUTE)

    async def speak_plainly(self, _):
        """Sends plain HTTP to the TLS listener over its own connection; the given connection is not used."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[True])
        connection = Connection(reader, writer)
        try:
            await connection.ask("GET", "/")
            return await self.expect_rejection(connection, 400, "not_tls", ledger.PLAIN_TO_TLS)
        finally:
            writer.close()

    async def expect_rejection(self, connection, status, cause, outcome):
        """Checks a response of the gateway itself: status and cause."""
        answer = await connection.answer()
        await answer.text()
        if (answer.status, answer.cause()) != (status, cause):
            raise Unexpected(f"{answer.status} {answer.cause()} instead of {status} {cause}")
        return outcome

    # Exchanges with origins that are killed.

    async def get_from_mortals(self, connection):
        await connection.ask("GET", f"/mortal/wait/{random.randint(*WAIT_MS)}")
        answer = await connection.answer()
        expect(answer, await answer.text(), "waited")
        return ledger.ANSWERED

    async def post_to_mortals(self, connection):
        path = f"/mortal/wait/{random.randint(*WAIT_MS)}"
        await connection.send(f"POST {path} HTTP/1.1\r\nHost: soak.test\r\nContent-Length: 3\r\n\r\nabc".encode())
        answer = await connection.answer()
        text = await answer.text()
        if (answer.status, answer.cause()) == (502, "upstream_closed"):
            return ledger.NOT_SENT_AGAIN
        expect(answer, text, checksum([b"abc"]))
        return ledger.ANSWERED

    async def download_from_mortals(self, connection):
        await connection.ask("GET", f"/mortal/paced/{MIB}")
        answer = await connection.answer()
        expect(answer, None, None)
        try:
            found = await answer.checksum()
        except (ConnectionError, EOFError):
            return ledger.CUT
        expect(answer, found, self.sums[MIB])
        return ledger.ANSWERED


def expect(answer, found, wanted):
    """Checks that a response has status 200 and the expected body."""
    if answer.status != 200:
        raise Unexpected(f"{answer.status} {answer.cause()} instead of 200")
    if found != wanted:
        raise Unexpected(f"the body is {found}, expected {wanted}")
