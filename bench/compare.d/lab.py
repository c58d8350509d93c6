# SPDX-License-Identifier: GPL-2.0-or-later
"""Where bench/compare works: its folder, its ports, its processes, and which CPU is whose.

Every process that is started goes through Lab.spawn() and is in Lab.children until it is waited for,
so that Lab.close() can end all of them, whatever happened.  Each gets a session of its own: Ctrl-C on
the terminal reaches only us, and we end them in order.
"""
import collections
import glob
import os
import pwd
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PORTS = 200  # from --port on


class Failure(Exception):
    """Something did not start or did not answer; the text says what."""


Layout = collections.namedtuple("Layout", "pooler server load words")
Reading = collections.namedtuple("Reading", "at cpu_ns switches threads")


# --- CPUs -----------------------------------------------------------------------------------------


def siblings(cpu):
    """The CPUs that are threads of the same physical core."""
    try:
        with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list",
                  encoding="ascii") as file:
            return cpus_read(file.read().strip())
    except (OSError, ValueError):
        return [cpu]


def cpus_read(text):
    """0-3,8 as a list."""
    out = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        out += range(int(first), int(last or first) + 1)
    return out


def cpus_write(cpus):
    return ",".join(str(cpu) for cpu in cpus)


def layout(cpus, same_core, wanted):
    """Who runs where when the pooler has `wanted` threads or processes.  The pooler gets CPUs of
    cores of their own as long as there are any; what measures gets the other cores; what is too much
    shares, and the words say so."""
    seen, first, second = set(), [], []
    for cpu in cpus:
        (second if seen & set(same_core(cpu)) else first).append(cpu)
        seen.add(cpu)
    pooler = (first + second)[:max(1, wanted)]
    near = {cpu for mine in pooler for cpu in same_core(mine)}
    rest = [cpu for cpu in cpus if cpu not in near]
    words = []
    if not rest:
        rest = [cpu for cpu in cpus if cpu not in pooler]
        if rest:
            words.append("load and server share physical cores with the pooler (hyperthreads)")
    if not rest:
        rest = list(cpus)
        words.append("load and server SHARE CPUs WITH THE POOLER")
    if len(pooler) < wanted:
        words.append(f"{wanted} threads or processes of the pooler share {len(pooler)} CPUs")
    server, load = (rest[:1], rest[1:]) if len(rest) > 1 and not words else (rest, rest)
    if server == load:
        words.append(f"load and server share CPU {cpus_write(load)}" if len(load) == 1 else
                     f"load and server share CPUs {cpus_write(load)}")
    where = (f"pooler on CPU {cpus_write(pooler)}, server on {cpus_write(server)}, "
             f"load on {cpus_write(load)}")
    return Layout(pooler, server, load, "; ".join([where] + words))


# --- what the kernel knows about a process --------------------------------------------------------


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def threads_read(pids):
    """{(pid, tid, name): nanoseconds of CPU} of all threads there are."""
    out = {}
    for pid in pids:
        for task in glob.glob(f"/proc/{pid}/task/*"):
            spent = _read(task + "/schedstat").split()
            if spent:
                tid = int(task.rsplit("/", 1)[1])
                out[pid, tid, _read(task + "/comm").strip()] = int(spent[0])
    return out


def switches_read(pids):
    """Context switches of all threads so far, wanted or not."""
    total = 0
    for pid in pids:
        for path in glob.glob(f"/proc/{pid}/task/*/status"):
            total += sum(int(line.split()[1]) for line in _read(path).splitlines()
                         if "voluntary_ctxt_switches" in line)
    return total


def reading(pids):
    at = time.monotonic()
    threads = threads_read(pids)
    return Reading(at, sum(threads.values()), switches_read(pids), threads)


def resident(pids):
    """Bytes of memory in use: what processes share is counted for each of them."""
    total = 0
    for pid in pids:
        for line in _read(f"/proc/{pid}/status").splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) * 1024
    return total


def busy_elsewhere(seconds=0.5):
    """The share of all CPU time that others use while we do nothing: (busy, stolen)."""
    def look():
        fields = [int(word) for word in _read("/proc/stat").splitlines()[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4], fields[7]
    before = look()
    time.sleep(seconds)
    total, idle, stolen = (b - a for a, b in zip(before, look()))
    return ((total - idle) / total, stolen / total) if total else (0.0, 0.0)


# --- the lab --------------------------------------------------------------------------------------


class Lab:
    """One run of bench/compare."""

    def __init__(self, top, build, port):
        self.top, self.build = top, build
        self.children = []
        self.first_port = self.next_port = port
        self.cpus = sorted(os.sched_getaffinity(0))
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.files = hard
        self.user = self._user() if os.geteuid() == 0 else None
        self.folder = tempfile.mkdtemp(prefix="ringbouncer-compare.", dir="/tmp")
        os.chmod(self.folder, 0o755)

    @staticmethod
    def _user():
        """Whom the poolers become when root starts them."""
        for name in ("postgres", "nobody"):
            try:
                return pwd.getpwnam(name)
            except KeyError:
                continue
        raise Failure("no user postgres or nobody for the poolers to run as")

    def layout(self, wanted):
        return layout(self.cpus, siblings, wanted)

    def subfolder(self, name):
        """A new folder that the pooler's user owns."""
        path = os.path.join(self.folder, name)
        shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path, 0o755)
        if self.user:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)
        return path

    def port(self):
        """A port that nobody listens on.  Each start gets another one, so that nothing which still
        dies of the one before can take part."""
        for _ in range(PORTS):
            port = self.next_port
            self.next_port = self.first_port + (port + 1 - self.first_port) % PORTS
            probe = socket.socket()
            with probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                    return port
                except OSError:
                    continue
        raise Failure(f"no free port from {self.first_port} to {self.first_port + PORTS - 1}")

    def spawn(self, command, cpus, log, **more):
        """Starts a process on these CPUs.  Its words go to the file `log`, unless told otherwise."""
        def child():
            os.sched_setaffinity(0, cpus)
        with open(log, "ab") as file:
            more = {"stdout": file, "stderr": subprocess.STDOUT, **more}
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True,
                                       preexec_fn=child, **more)
        self.children.append(process)
        return process

    def stop(self, process, number=signal.SIGTERM, patience=3.0):
        """Asks it to end, then makes it."""
        if process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout:
            process.stdout.close()
        if process in self.children:
            self.children.remove(process)

    def close(self):
        for process in list(reversed(self.children)):
            self.stop(process, patience=2.0)
        shutil.rmtree(self.folder, ignore_errors=True)


def run(command, **more):
    """subprocess.run() that takes all of its children along when it is interrupted."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, text=True,
                               **more)
    try:
        said = process.communicate()[0]
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise
    return process.returncode, said


def tail(path, lines=12):
    return "\n".join(_read(path).splitlines()[-lines:])


def wait_for(what, seconds=10.0, step=0.02):
    """Calls `what` until it is true; False if it never was."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(step)
    return True
