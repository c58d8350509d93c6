# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of bench/compare's arithmetic and report: bench/compare --self-test, called by bench/check."""
import contextlib
import html.parser
import io
import os
import tempfile
import unittest

import adapters
import charts
import figures
import lab
import measure
import page
import postgres
import programs
import report
import rows
import wire

VOID = {"meta", "rect", "line", "circle", "polyline", "br"}


def sample(number, errors=None, **found):
    return {"round": number, "errors": errors or {}, "figures": {} if errors else found}


def cell(*values, key="cpu"):
    return [sample(number, **{key: value}) for number, value in enumerate(values)]


class Statistics(unittest.TestCase):
    def test_median_spread_and_mad(self):
        for values, wanted in (
                ([3.0], (3.0, 3.0, 3.0, 0.0, 1)),
                ([5, 1, 3], (3, 1, 5, 2, 3)),
                ([4, 1, 3, 2], (2.5, 1, 4, 1.0, 4)),
                ([10, 10, 10, 90, 10], (10, 10, 90, 0, 5)),
                ([2, None, 4], (3.0, 2, 4, 1.0, 2))):
            self.assertEqual(tuple(figures.figure(values)), wanted)
        self.assertIsNone(figures.figure([]))
        self.assertIsNone(figures.figure([None]))

    def test_percentile_and_jain(self):
        hundred = list(range(1, 101))
        for share, wanted in ((0.5, 50), (0.9, 90), (0.99, 99), (0.999, 100), (1, 100)):
            self.assertEqual(figures.percentile(hundred, share), wanted)
        self.assertEqual(figures.percentile([7], 0.5), 7)
        self.assertEqual(figures.percentile([], 0.5), 0)
        self.assertEqual(figures.jain([4, 4, 4, 4]), 1)
        self.assertEqual(figures.jain([1, 0, 0, 0]), 0.25)

    def test_ratio_is_taken_round_by_round(self):
        # The machine gets three times slower, the ratio stays.
        self.assertEqual(tuple(figures.ratio(cell(8, 16, 24), cell(10, 20, 30), "cpu")),
                         (0.8, 0.8, 0.8, 0.0, 3))
        # A round that one of them lacks does not count.
        self.assertEqual(figures.ratio(cell(8, 18), cell(10), "cpu").count, 1)
        self.assertIsNone(figures.ratio(cell(8), [], "cpu"))
        self.assertIsNone(figures.ratio(cell(8), None, "cpu"))

    def test_errors_leave_no_figure(self):
        spoiled = cell(8, 9) + [sample(2, {"SQLSTATE 08P01": 3, "lost": 1})]
        self.assertEqual(figures.errors(spoiled), {"SQLSTATE 08P01": 3, "lost": 1})
        self.assertIsNone(figures.cell_figure(spoiled, "cpu"))
        self.assertIsNone(figures.ratio(spoiled, cell(1, 1, 1), "cpu"))
        self.assertIsNone(figures.ratio(cell(1, 1, 1), spoiled, "cpu"))

    def test_numbers_as_text(self):
        for value, wanted in ((0, "0.00"), (0.1234, "0.123"), (0.9949, "0.995"), (0.9951, "1.00"),
                              (1.155, "1.16"), (31.27, "31.3"), (123.4, "123"),
                              (1234567.8, "1,234,568"), (None, "-")):
            self.assertEqual(figures.show(value), wanted)
        self.assertEqual(figures.show_spread(figures.figure([1, 2, 3])), "2.00 (1.00..3.00)")


class Bars(unittest.TestCase):
    def judged(self, row, extra=(), **cells):
        named = {key.replace("_", "-"): value for key, value in cells.items()}
        return {(bar["program"], bar["text"]): bar for bar in figures.judge({row: named}, extra)}

    def test_verdicts(self):
        for value, limit, at_least, wanted in (
                (1.15, 1.15, False, "met"), (1.1501, 1.15, False, "not met"), (0.95, 0.95, True, "met"),
                (0.94, 0.95, True, "not met"), (None, 1, False, "not measured")):
            self.assertEqual(figures.verdict(value, limit, at_least), wanted)

    def test_floor_and_pgbouncer(self):
        floor = "CPU, times the io_uring floor"
        bars = self.judged("simple-64", ring_1=cell(11, 12, 11), floor_uring=cell(10, 10, 10))
        self.assertEqual(bars["ring-1", floor]["verdict"], "met")
        self.assertTrue(bars["ring-1", floor]["close"]) # one round was 1.2
        self.assertEqual(bars["ring-1", "median latency, times PgBouncer's"]["why"],
                         "pgbouncer was not run")
        bars = self.judged("simple-64", ring_1=cell(12, 12), floor_uring=cell(10, 10))
        self.assertEqual(bars["ring-1", floor]["verdict"], "not met")
        self.assertFalse(bars["ring-1", floor]["close"])
        self.assertAlmostEqual(bars["ring-1", floor]["value"]["median"], 1.2)
        bars = self.judged("churn-16", ring_1=cell(70), pgbouncer=cell(100))
        self.assertEqual(bars["ring-1", "CPU, times PgBouncer's"]["verdict"], "met")

    def test_a_slower_build_is_shown_as_slower(self):
        bars = self.judged("simple-64", ("slow",), ring_1=cell(10), slow=cell(20),
                           floor_uring=cell(9))
        floor = "CPU, times the io_uring floor"
        self.assertEqual(bars["ring-1", floor]["verdict"], "met")
        self.assertEqual(bars["slow", floor]["verdict"], "not met")

    def test_errors_are_not_measured(self):
        bad = [sample(0, {"lost": 2})]
        for cells in ({"ring_1": bad, "floor_uring": cell(1)}, {"ring_1": cell(1), "floor_uring": bad}):
            bar = self.judged("simple-8", **cells)["ring-1", "CPU, times the io_uring floor"]
            self.assertEqual(bar["verdict"], "not measured")
            self.assertIn("had errors", bar["why"])

    def test_many_workers_and_crowds(self):
        many = [sample(0, cpu=13, cpu_64=10, tail=1.6, jain=0.96)]
        bars = self.judged("many-10000", ring_1=many)
        self.assertEqual([bars["ring-1", text]["verdict"] for text in (
            "CPU, times its own with 64 clients", "p99 / p50", "fairness over clients (Jain)")],
                         ["met", "not met", "met"])
        bars = self.judged("workers", ring_1=cell(10), ring_2=cell(11), ring_32=cell(12))
        growth = "CPU, times that of 1 worker"
        self.assertEqual({key[0]: bar["verdict"] for key, bar in bars.items() if key[1] == growth},
                         {"ring-2": "met", "ring-32": "not met"})
        bars = self.judged("spread-64", ring_16=cell(2.5, key="crowd"))
        self.assertEqual([bar["verdict"] for bar in bars.values()], ["not met"])


class Machine(unittest.TestCase):
    def test_cpus(self):
        self.assertEqual(lab.cpus_read("0-2,8"), [0, 1, 2, 8])
        self.assertEqual(lab.cpus_write([0, 1, 8]), "0,1,8")

    def test_layout(self):
        alone = lambda cpu: [cpu]
        pairs = lambda cpu: [cpu % 4, cpu % 4 + 4] # 0 and 4 are one core
        for cpus, same, wanted, pooler, server, load, words in (
                ([0, 1], alone, 1, [0], [1], [1], "share CPU 1"),
                ([0, 1], alone, 2, [0, 1], [0, 1], [0, 1], "SHARE CPUs WITH THE POOLER"),
                ([0, 1], alone, 16, [0, 1], [0, 1], [0, 1], "16 threads"),
                (list(range(8)), alone, 2, [0, 1], [2], [3, 4, 5, 6, 7], ""),
                (list(range(8)), pairs, 1, [0], [1], [2, 3, 5, 6, 7], ""),
                (list(range(8)), pairs, 4, [0, 1, 2, 3], [4, 5, 6, 7], [4, 5, 6, 7], "hyperthreads"),
                (list(range(8)), pairs, 5, [0, 1, 2, 3, 4], [5, 6, 7], [5, 6, 7], "hyperthreads")):
            found = lab.layout(cpus, same, wanted)
            self.assertEqual((found.pooler, found.server, found.load), (pooler, server, load))
            self.assertIn(words, found.words)
            self.assertEqual("share" in found.words.lower(), bool(words))

    def test_figures_of_a_window(self):
        summary = {"rate": 1000.0, "queries_per_s": 5000.0, "bytes_per_s": 2e9, "transactions": 3000,
                   "fairness": 1.0, "latency_us": {"mean": 2, "p50": 2.0, "p90": 3, "p99": 5,
                                                   "p99_9": 9}}
        before = lab.Reading(10.0, 1_000_000_000, 100, {(1, 1, "w"): 1_000_000_000})
        after = lab.Reading(12.0, 1_100_000_000, 300, {(1, 1, "w"): 1_100_000_000})
        for unit, cpu in (("transaction", 50.0), ("query", 10.0), ("GB", 0.025)):
            found = measure.figures_of(summary, before, after, unit)
            self.assertAlmostEqual(found["cpu"], cpu)
        self.assertAlmostEqual(measure.figures_of(summary, before, after, "visit")["switches"], 0.1)
        self.assertEqual(found["tail"], 2.5)
        self.assertNotIn("switches", found)
        self.assertNotIn("cpu", measure.figures_of(summary, before._replace(threads={}), after, ""))

    def test_errors_of_load(self):
        summary = {"errors": {"08P01": 2, "end": 1}, "wrong": 0, "lost": 3, "double": 0,
                   "transactions": 5}
        self.assertEqual(measure.errors_of(summary), {"SQLSTATE 08P01": 2, "end": 1, "lost": 3})
        summary.update(errors={}, lost=0, transactions=0)
        self.assertEqual(measure.errors_of(summary), {"no transaction": 1})

    def test_versions(self):
        self.assertEqual(programs.version_numbers("PgBouncer 1.18.0"), (1, 18))
        self.assertEqual(report.short_version("PgBouncer 1.25.2 (ringbouncer 0.1.0)"), "0.1.0")

    def test_pgbench_lines(self):
        found = postgres.PROGRESS.search(
            "progress: 2.0 s, 12345.6 tps, lat 0.648 ms stddev 0.221, 0 failed")
        self.assertEqual(found.groups(), ("12345.6", "0.648", "0.221"))

    def test_rows_are_scaled_to_the_limit_of_files(self):
        listed, words = rows.all_rows(20000, False)
        self.assertIn("many-10000", [row.name for row in listed])
        self.assertEqual(words, [])
        listed, words = rows.all_rows(4096, False)
        self.assertIn("many-3696", [row.name for row in listed])
        self.assertIn("3,696 instead of 10,000", words[0])


class Formats(unittest.TestCase):
    def test_messages_cut_anywhere(self):
        whole = b"D" + (4 + 2 + 4 + 1).to_bytes(4, "big") + b"\0\1\0\0\0\1x" + b"Z\0\0\0\5I"
        for cut in range(len(whole) + 1):
            data, seen = bytearray(), []
            for part in (whole[:cut], whole[cut:]):
                data += part
                seen += [kind for kind, _ in wire.messages(data)]
            self.assertEqual((seen, data), (["D", "Z"], b""))

    def test_adapter(self):
        one = adapters.parse(["# x\n", "label = A b\n", "program = a\n",
                              "command = a @FOLDER@/c -p @PORT@\n",
                              "--- c\n", "# kept\n", "host @NONE@ @SERVER_HOST@\n"])
        self.assertEqual(one.command("command", {"FOLDER": "/f f", "PORT": 1}),
                         ["a", "/f f/c", "-p", "1"])
        self.assertEqual(adapters.fill(one.files["c"], {"SERVER_HOST": "h"}), "# kept\nhost @NONE@ h\n")
        for lines in (["label = A"], ["nonsense"]):
            with self.assertRaises(ValueError):
                adapters.parse(lines)

    def test_ticks(self):
        for high, wanted in ((0, [0, 1]), (4, [0, 1, 2, 3, 4]), (31, [0, 10, 20, 30, 40]),
                             (0.9, [0, 0.25, 0.5, 0.75, 1.0])):
            self.assertEqual([round(tick, 9) for tick in charts.ticks(high)], wanted)


class Tags(html.parser.HTMLParser):
    """Notes what is not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.wrong = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append((tag, self.getpos()))


class FakeBench:
    """What report.collect() looks at."""

    def __init__(self):
        self.notes, self.placements = ["a <note>"], {"ring-1": "pooler on CPU 0"}
        self.programs = {key: programs.Direct(key, label) for key, label in (
            ("ring-1", "ringbouncer, 1 worker"), ("ring-2", "ringbouncer, 2 workers"),
            ("pgbouncer", "PgBouncer"), ("floor-uring", "floor, io_uring"), ("odyssey", "Odyssey"))}
        self.programs["odyssey"].missing = "no odyssey in PATH"
        def four(*values):
            return [sample(number, cpu=value, rate=1e6 / value, p50=value, p90=value * 2,
                           p99=value * 3, p999=value * 4) for number, value in enumerate(values)]
        self.tables = {
            "tcp": {"simple-64": {"ring-1": four(8, 9, 10), "pgbouncer": four(20, 20, 20),
                                  "floor-uring": four(8, 8, 8)},
                    "extended-64": {"ring-1": four(8),
                                    "pgbouncer": [sample(0, {"wrong": 7}, cpu=4444)]}},
            "workers": {"workers": {"ring-1": four(10), "ring-2": four(12)}}}
        self.rows = {table: {name: rows.Row(name, name + " & co", "simple", 64) for name in found}
                     for table, found in self.tables.items()}


class Report(unittest.TestCase):
    def setUp(self):
        fake = FakeBench()
        known = {"format": 1, "started": 0, "command": ["bench/compare", "--x"], "machine": {
            "words": "2 CPUs", "cpus": [0, 1], "virtual": "kvm"}, "settings": {
                "rounds": 3, "seconds": 1, "warmup": 0.5}, "checksums": {"bench/floor.c": "abc"},
                 "commit": "1234", "changed": True, "syscalls": "not counted", "locks": None}
        bars = {table: figures.judge(cells) for table, cells in fake.tables.items()}
        self.data = report.collect(fake, known, bars, 9)

    def test_what_it_says(self):
        text = page.make(self.data)
        for words in ("<strong>0.450 ×</strong><span>PgBouncer&#x27;s CPU (0.400..0.500)", "1.12 (1.00..1.25) × the io_uring floor",
                      "1.12<br>(1.00..1.25)", "9.00 (8.00..10.0)",
                      "errors, no figure: wrong 7", "a &lt;note&gt;", "simple-64 &amp; co",
                      "Odyssey left out: no odyssey in PATH", "bench/floor.c abc", ">not met<", ">met<",
                      "1 worker + 15 %"):
            self.assertTrue(words in text, words)
        self.assertNotIn("4444", text)
        self.assertNotIn("<script", text)
        self.assertNotIn("http", text)

    def test_tags_are_closed(self):
        tags = Tags(page.make(self.data))
        self.assertEqual((tags.wrong, tags.open), ([], []))

    def test_written_and_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            with contextlib.redirect_stdout(io.StringIO()):
                report.write(self.data, folder)
            again = report.load(os.path.join(folder, "report.json"))
            self.assertEqual(page.make(again), page.make(self.data))
        shown = again["tables"]["tcp"]["simple-64"]["shown"]["ring-1"]
        self.assertAlmostEqual(shown["times_pgbouncer"]["median"], 0.45)


def run():
    tests = unittest.defaultTestLoader.loadTestsFromModule(__import__(__name__))
    result = unittest.TextTestRunner(verbosity=0).run(tests)
    return 0 if result.wasSuccessful() else 1
