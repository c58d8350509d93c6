# SPDX-License-Identifier: GPL-2.0-or-later
"""Load: clients that ask for numbers of their own, and crowds that just sit there.

Run in processes of their own, so that a test's Python is not what is measured.
"""
import asyncio
import json
import os
import random
import resource
import socket
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from wire import B, CANCEL_REQUEST, E, P, Q, S, X, packet, startup  # noqa: E402


class Client:
    """A session over asyncio streams."""

    async def open(self, where, user="postgres", database="test"):
        self.reader, self.writer = await asyncio.open_connection(*where)
        self.writer.write(startup([("user", user), ("database", database)]))
        while True:
            kind, body = await self.read()
            if kind == "E":
                raise ConnectionError(text(body))
            if kind == "K":
                self.key = body
            if kind == "Z":
                return self

    async def read(self):
        head = await self.reader.readexactly(5)
        size = struct.unpack("!I", head[1:])[0] - 4
        return chr(head[0]), await self.reader.readexactly(size)

    async def answer(self):
        """Values of the rows, SQLSTATE of an error or None."""
        values, error = [], None
        while True:
            kind, body = await self.read()
            if kind == "D":
                size = struct.unpack_from("!I", body, 2)[0]
                values.append(body[6:6 + size].decode())
            elif kind == "E":
                error = text(body)
                if b"SFATAL" in body:
                    raise ConnectionError(error)
            elif kind == "Z":
                return values, error

    def vanish(self):
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def text(body):
    parts = [p.decode("utf-8", "replace") for p in body.split(b"\0")]
    return " ".join(p for p in parts if p[:1] in ("C", "M"))


async def cancel(where, key):
    reader, writer = await asyncio.open_connection(*where)
    writer.write(packet(CANCEL_REQUEST, key))
    await reader.read()
    writer.close()


async def one(where, number, end, got):
    """A client that asks for its nonce until the end."""
    loop, client, rnd = asyncio.get_running_loop(), None, random.Random(number)
    asked = 0
    while loop.time() < end:
        try:
            if client is None:
                client = await Client().open(where)
                asked = 0
            nonce = f"{number}-{rnd.getrandbits(40)}"
            chance, sleep = rnd.random(), ""
            if chance < 0.1:
                sleep = ", pg_sleep(0.01)"
            if rnd.random() < 0.5:
                client.writer.write(Q(f"select '{nonce}'{sleep}"))
            else:
                client.writer.write(P("", f"select $1::text{sleep}") + B("", "", nonce) + E() + S)
            if chance < 0.05:
                await asyncio.sleep(rnd.random() * 0.012)
                client.vanish()
                client = None
                got["vanished"] += 1
                continue
            if chance < 0.1:
                got["asked"] += 1
                await asyncio.sleep(rnd.random() * 0.012)
                asked = 2
                _, (values, error) = await asyncio.gather(cancel(where, client.key), client.answer())
            else:
                values, error = await client.answer()
            if error is None and values == [nonce]:
                got["right"] += 1
            elif error and "57014" in error and asked:
                # PostgreSQL runs a cancel when it is there: it may be the next query that is hit.
                got["cancelled" if asked == 2 else "late"] += 1
            elif error:
                got["errors"].append(error)
            else:
                got["wrong"] += 1
                got["errors"].append(f"asked for {nonce}, got {values}")
            asked = max(0, asked - 1)
        except (ConnectionError, asyncio.IncompleteReadError, OSError) as error:
            got["errors"].append(repr(error))
            client = None
            await asyncio.sleep(0.05)
    if client:
        client.writer.write(X)
        client.writer.close()


async def nonces_here(where, first, count, seconds):
    got = dict(right=0, wrong=0, vanished=0, asked=0, cancelled=0, late=0, errors=[])
    end = asyncio.get_running_loop().time() + seconds
    done = await asyncio.gather(*(asyncio.wait_for(one(where, first + i, end, got), seconds + 30)
                                  for i in range(count)), return_exceptions=True)
    got["errors"] += [repr(d) for d in done if isinstance(d, BaseException)]
    got["errors"] = got["errors"][:20]
    return got


def nonces(where, count, seconds):
    """What `count` clients saw, in two processes."""
    people = [subprocess.Popen([sys.executable, __file__, "nonces", where[0], str(where[1]),
                                str(i * count), str(count // 2), str(seconds)],
                               stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
              for i in range(2)]
    total = {}
    for process in people:
        out, _ = process.communicate(timeout=seconds + 60)
        for key, value in json.loads(out).items():
            total[key] = total[key] + value if key in total else value
    return total


class Crowd:
    """`count` clients that log in and sit there, in two processes."""

    def __init__(self, where, count):
        self.people = [subprocess.Popen([sys.executable, __file__, "crowd", where[0], str(where[1]),
                                         str(count // 2)], stdout=subprocess.PIPE,
                                        stdin=subprocess.PIPE) for _ in range(2)]
        self.ready = sum(int(p.stdout.readline() or 0) for p in self.people)

    def end(self):
        for process in self.people:
            process.stdin.close()
            process.wait(30)


def crowd_here(where, count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    hello, keep = startup([("user", "postgres"), ("database", "test")]), []
    for at in range(0, count, 50):
        some = []
        for number in range(at, min(at + 50, count)):
            sock = socket.socket()
            sock.settimeout(20)
            # More than 28 000 ports are not to be had from one address.
            sock.bind((f"127.0.1.{number % 200 + 1}", 0))
            sock.connect(where)
            sock.sendall(hello)
            some.append(sock)
        for sock in some:
            data = b""
            while not data.endswith(b"Z\0\0\0\5I"):
                more = sock.recv(4096)
                if not more:
                    raise SystemExit(f"refused: {data!r}")
                data += more
        keep += some
    print(len(keep), flush=True)
    sys.stdin.read()
    for sock in keep:
        sock.close()


if __name__ == "__main__":
    place = sys.argv[2], int(sys.argv[3])
    if sys.argv[1] == "nonces":
        print(json.dumps(asyncio.run(nonces_here(place, *map(int, sys.argv[4:7])))))
    else:
        crowd_here(place, int(sys.argv[4]))
