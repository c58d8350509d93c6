# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs one script of messages directly against PostgreSQL and through the pooler, and compares.

A script is a list of steps (client, messages, reply): the messages leave in one send, then the reply is
read word by word.  A reply of None is not waited for now; a later step without messages reads it.
"""
import time

from harness import Failed
from wire import words


def play(connect, script, piece=0, rest=True):
    """Replies of each step, as text; the first that is not as written ends it."""
    clients, found = {}, []
    for number, (name, messages, reply) in enumerate(script, 1):
        if name not in clients:
            clients[name] = connect()
        one = clients[name]
        data = b"".join(messages)
        if piece and len(data) < 5000:
            for at in range(0, len(data), piece):
                one.send(data[at:at + piece])
        elif data:
            one.send(data)
        if reply is None:
            continue
        wanted = words(reply)
        got = one.reply(len(wanted), 6)
        found.append(" ".join(got))
        if got != wanted:
            raise Failed(f"step {number} of {name}: got {' '.join(got)!r}, wanted {reply!r}")
    if rest:
        time.sleep(0.05)
    for name, one in clients.items():
        more = one.quiet(0.02) if rest else []
        if more and more != ["EOF"]:
            raise Failed(f"{name} got {more[0]!r} that nobody asked for")
        one.close()
    return found


def compare(stage, script, database="test", pieces=(0, 1), direct=True, setup=()):
    """The script must give what is written in it, here and there, and also sent in pieces."""
    def ready():
        with stage.cluster.wire(database) as db:
            for sql in setup:
                db.query(sql)
    if direct:
        ready()
        try:
            play(lambda: stage.direct(database=database), script)
        except Failed as failed:
            raise Failed(f"PostgreSQL itself: {failed}") from None
    for piece in pieces:
        ready()
        try:
            play(lambda: stage.wire(database=database), script, piece)
        except Failed as failed:
            raise Failed(f"through the pooler{f', {piece} byte at a time' if piece else ''}: "
                         f"{failed}") from None
