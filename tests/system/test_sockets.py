# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of the pooler's own sockets, as the kernel has them: nothing is held back, dead peers are noticed."""
import ctypes
import os
import socket

from harness import check, same, test

ONE = "test = host=127.0.0.1 port=PG pool_size=1"
KEEPALIVE = "tcp_keepalive = 1\ntcp_keepidle = 77\ntcp_keepintvl = 5\ntcp_keepcnt = 3"
PIDFD_GETFD = 438
OPTIONS = ((socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
           (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
           (socket.IPPROTO_TCP, socket.TCP_KEEPCNT))


def sockets_of(pid):
    """Copies of all TCP sockets of another process."""
    process = os.pidfd_open(pid)
    for name in os.listdir(f"/proc/{pid}/fd"):
        if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
            continue
        fd = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process, int(name), 0)
        check(fd >= 0, f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
        with socket.socket(fileno=fd) as one:
            if one.family == socket.AF_INET:
                yield one
    os.close(process)


def options(stage, local=None, peer=None):
    """Of the one connection with this port here, or there."""
    found = []
    for one in sockets_of(stage.pooler.pid):
        try:
            remote = one.getpeername()[1]
        except OSError:
            continue  # it listens
        if one.getsockname()[1] == local or remote == peer:
            found.append([one.getsockopt(*option) for option in OPTIONS])
    same(len(found), 1, "connections")
    return found[0]


def client_port(client):
    return client.sock.getsockname()[1]


@test(KEEPALIVE, databases=ONE)
def keepalive(stage):
    """TCP_NODELAY, tcp_keepalive and what belongs to it are set on sockets of clients and of servers."""
    one = stage.wire()
    one.query("select 1")
    same(options(stage, peer=client_port(one)), [1, 1, 77, 5, 3], "client")
    same(options(stage, peer=stage.cluster.port), [1, 1, 77, 5, 3], "server")


@test(KEEPALIVE, databases=ONE)
def keepalive_by_reload(stage):
    """A RELOAD holds for connections that come later, and for no other."""
    one = stage.wire()
    one.query("select 1")
    stage.reload(config=KEEPALIVE.replace("77", "99"), databases=ONE)
    two = stage.wire()
    same(options(stage, peer=client_port(two)), [1, 1, 99, 5, 3], "new")
    same(options(stage, peer=client_port(one)), [1, 1, 77, 5, 3], "old")
    stage.reload(config="tcp_keepalive = 0", databases=ONE)
    three = stage.wire()
    same(options(stage, peer=client_port(three))[:2], [1, 0], "switched off")
    same(two.value("select 2"), "2")
