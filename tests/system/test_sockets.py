# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of sockets: nothing is held back for an acknowledgement, and dead peers are noticed."""
import re
import statistics
import subprocess
import time

from harness import check, same, test
from wire import B, E, P, Q, S

ONE = "test = host=127.0.0.1 port=PG pool_size=1"


@test(databases=ONE)
def pieces_are_not_held_back(stage):
    """A batch that comes in two pieces takes no longer than in one: no wait for the first one's ACK."""
    one = stage.wire()
    data = P("", "select 1") + B() + E() + S + Q("select 2")
    one.query("select 1")
    for cut in range(1, len(data), 6):
        took = []
        for _ in range(15):
            began = time.monotonic()
            one.send(data[:cut])
            one.send(data[cut:])
            same(one.reply(9)[-1], "Zi")
            took.append(time.monotonic() - began)
        check(statistics.median(took) < 0.03, f"cut at {cut}: {statistics.median(took):.3f} s")


@test("tcp_keepalive = 1\ntcp_keepidle = 77\ntcp_keepintvl = 5\ntcp_keepcnt = 3", databases=ONE)
def keepalive(stage):
    """tcp_keepalive and what belongs to it are set on sockets of clients and of servers."""
    one = stage.wire()
    one.query("select 1")
    time.sleep(0.1)
    shown = subprocess.run(["ss", "-tnpo", "state", "established"], capture_output=True,
                           text=True).stdout
    lines = [x for x in shown.splitlines() if f"pid={stage.pooler.pid}," in x]
    for what, port in (("client", stage.pooler.port), ("server", stage.cluster.port)):
        mine = [x for x in lines if re.search(rf":{port}\b", x)]
        check(mine, f"no socket of a {what}", shown[-300:])
        for line in mine:
            found = re.search(r"timer:\(keepalive,(\d+)(min|sec)", line)
            check(found, f"no keepalive of a {what}: {line}")
