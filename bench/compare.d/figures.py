# SPDX-License-Identifier: GPL-2.0-or-later
"""Statistics of bench/compare: medians with their spread, ratios, and whether a bar is met.

A sample is what one round of one program said about one row: {"round", "errors", "figures"}.  A cell
is the list of samples of one program in one row.  A cell in which anything went wrong has no figure
at all: a program that drops queries is cheap.

Ratios are taken round by round, between two runs that lie seconds apart, and the median of them is
shown.  A machine that gets slower over minutes moves both sides of each pair, not the ratio.
"""
import collections
import fnmatch

Figure = collections.namedtuple("Figure", "median low high mad count")
# `against`: a program, or "own:KEY" for another figure of the same cell, or "" for the figure itself.
# `program`: a pattern of programs that are judged.
Bar = collections.namedtuple("Bar", "rows program key against limit at_least text")

MET, NOT_MET, NOT_MEASURED = "met", "not met", "not measured"


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def figure(values):
    """The Figure of some numbers; None of none."""
    values = [value for value in values if value is not None]
    if not values:
        return None
    centre = median(values)
    mad = median([abs(value - centre) for value in values])
    return Figure(centre, min(values), max(values), mad, len(values))


def percentile(values, share):
    """The smallest value that at least this share of all does not exceed; 0 of none."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def jain(values):
    """1 if all got the same, 1/n if one got all."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def errors(cell):
    """All that went wrong in a cell, by kind."""
    total = collections.Counter()
    for sample in cell:
        total.update(sample["errors"])
    return dict(total)


def cell_figure(cell, key):
    """The Figure of `key` in a cell; None where a round had errors or nobody measured it."""
    if not cell or errors(cell):
        return None
    return figure([sample["figures"].get(key) for sample in cell])


def ratio(over, under, key, under_key=None):
    """The Figure of over/under by rounds that both have; None where one of them has no figure."""
    if not over or not under or errors(over) or errors(under):
        return None
    below = {sample["round"]: sample["figures"].get(under_key or key) for sample in under}
    pairs = [(sample["figures"].get(key), below.get(sample["round"])) for sample in over]
    return figure([a / b for a, b in pairs if a is not None and b])


# --- bars -----------------------------------------------------------------------------------------

FLOOR, PGB, OURS = "floor-uring", "pgbouncer", "ring-1"


def _floor(rows, limit):
    return Bar(rows, OURS, "cpu", FLOOR, limit, False, "CPU, times the io_uring floor")


BARS = [
    _floor("simple-1", 1.20),
    _floor("simple-8", 1.15),
    _floor("simple-64", 1.15),
    _floor("simple-256", 1.15),
    _floor("extended-64", 1.20),
    _floor("prepared-64", 1.30),
    _floor("transaction-64", 1.15),
    Bar("churn-16", OURS, "cpu", PGB, 0.70, False, "CPU, times PgBouncer's"),
    Bar("bulk-*", OURS, "cpu", PGB, 0.80, False, "CPU per byte, times PgBouncer's"),
    Bar("simple-*", OURS, "p50", PGB, 1.0, False, "median latency, times PgBouncer's"),
    Bar("extended-64", OURS, "p50", PGB, 1.0, False, "median latency, times PgBouncer's"),
    Bar("prepared-64", OURS, "p50", PGB, 1.0, False, "median latency, times PgBouncer's"),
    Bar("transaction-64", OURS, "p50", PGB, 1.0, False, "median latency, times PgBouncer's"),
    Bar("many-*", OURS, "cpu", "own:cpu_64", 1.3, False, "CPU, times its own with 64 clients"),
    Bar("many-*", OURS, "tail", "", 1.5, False, "p99 / p50"),
    Bar("many-*", OURS, "jain", "", 0.95, True, "fairness over clients (Jain)"),
    Bar("spread-*", "ring-16", "crowd", "", 2.0, False, "clients of the fullest worker, times the mean"),
    Bar("workers", "ring-*", "cpu", "ring-1", 1.15, False, "CPU, times that of 1 worker"),
]


def verdict(value, limit, at_least=False):
    if value is None:
        return NOT_MEASURED
    return MET if (value >= limit if at_least else value <= limit) else NOT_MET


def bar_value(bar, row_cells, program):
    """The Figure that a bar is about, or None."""
    cell = row_cells.get(program)
    if bar.against.startswith("own:"):
        return ratio(cell, cell, bar.key, bar.against[4:])
    if bar.against:
        return ratio(cell, row_cells.get(bar.against), bar.key)
    return cell_figure(cell, bar.key)


def _why(bar, row_cells, program):
    """Why there is no figure."""
    for name in (program, bar.against):
        if not name or name.startswith("own:"):
            continue
        cell = row_cells.get(name)
        if cell is None:
            return f"{name} was not run"
        if errors(cell):
            return f"{name} had errors"
    return "no figure"


def judge(cells, extra=()):
    """Judges each bar that a row of cells ({row: {program: cell}}) has; a list of dicts.  `extra`:
    programs that are held to the bars of OURS, too."""
    out = []
    for row, row_cells in cells.items():
        for bar in BARS:
            if not fnmatch.fnmatchcase(row, bar.rows):
                continue
            names = [name for name in row_cells if fnmatch.fnmatchcase(name, bar.program)]
            if bar.program == OURS:
                names += [name for name in extra if name in row_cells]
            for name in names or [bar.program]:
                if name == bar.against:
                    continue
                value = bar_value(bar, row_cells, name)
                found = verdict(value and value.median, bar.limit, bar.at_least)
                out.append({
                    "row": row, "program": name, "text": bar.text, "limit": bar.limit,
                    "at_least": bar.at_least, "verdict": found,
                    "value": value._asdict() if value else None,
                    "close": bool(value and value.low <= bar.limit <= value.high and
                                  value.low < value.high),
                    "why": "" if value else _why(bar, row_cells, name)})
    return out


# --- numbers as text ------------------------------------------------------------------------------


def show(value):
    """Three digits that count, never in powers of ten."""
    if value is None:
        return "-"
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.995 or size == 0 else f"{value:.3f}"


def show_spread(value):
    """median (low..high); the median alone where there is but one."""
    if value is None:
        return "-"
    if value.count == 1:
        return show(value.median)
    return f"{show(value.median)} ({show(value.low)}..{show(value.high)})"


def show_errors(found, length=60):
    text = ", ".join(f"{kind} {count:,}" for kind, count in sorted(found.items()))
    return text if len(text) <= length else text[:length - 1] + "…"
