# SPDX-License-Identifier: GPL-2.0-or-later
"""Many clients at once: a thread for each, and what went wrong in any of them in one list."""
import threading
import traceback

from harness import Failed


def together(count, work, seconds=30):
    """Runs work(number) for each number at once.  What one returns or raises is what is wrong."""
    wrong = []

    def run(number):
        try:
            found = work(number)
        except Exception as error:
            lines = [f.lineno for f in traceback.extract_tb(error.__traceback__)
                     if "/test_" in f.filename]
            found = f"{error!r} (line {lines[-1:]})"
        if found:
            wrong.append(f"client {number}: {found}")
    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    left = sum(t.is_alive() for t in threads)
    if wrong or left:
        raise Failed(f"{left} of {count} clients still wait; " + "; ".join(wrong[:3]))
