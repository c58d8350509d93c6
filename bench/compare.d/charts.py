# SPDX-License-Identifier: GPL-2.0-or-later
"""Charts as SVG text: bars with whiskers, lines, and dots on a logarithmic axis.

Each is WIDE units wide and is shown at that size, so that letters have one size everywhere and fit
on a phone.  Colours are CSS variables of the page, which has a set for light and one for dark.
"""
import math
from html import escape

import figures

WIDE = 340
LABEL = 15          # height of a line of text
BAR = 10


def colour(key, keys):
    """The CSS variable of a program.  Known kinds have a colour each; others are told apart."""
    if key == "ring-1":
        return "var(--ring)"
    if key.startswith("ring-"):
        return "var(--ring2)"
    for name in ("pgbouncer", "fleet", "floor-uring", "floor-epoll", "direct"):
        if key.startswith(name):
            return f"var(--{name})"
    others = [one for one in keys if not one.startswith(("ring-", "fleet-", "floor-")) and
              one not in ("pgbouncer", "direct")]
    return f"var(--other{others.index(key) % 3})"


def _svg(height, parts, title):
    return (f'<svg viewBox="0 0 {WIDE} {height:g}" width="{WIDE}" height="{height:g}" role="img" '
            f'aria-label="{escape(title)}">{"".join(parts)}</svg>')


def _text(x, y, words, kind="", anchor="start"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
            f'{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(str(words))}</text>')


def _line(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def ticks(high, count=4):
    """Round numbers from 0 to just above `high`."""
    if high <= 0:
        return [0.0, 1.0]
    step = 10 ** math.floor(math.log10(high / count))
    for factor in (1, 2, 2.5, 5, 10):
        if high / (step * factor) <= count:
            step *= factor
            break
    return [index * step for index in range(math.ceil(high / step - 1e-9) + 1)]


def bars(title, lines):
    """Horizontal bars: lines are (label, colour, Figure or None, words instead of a figure).  The
    whisker goes from the smallest to the largest round."""
    high = max([figure.high for _, _, figure, _ in lines if figure] or [1]) or 1
    room = WIDE - 62 # for the number at the end
    parts, y = [], 0
    for label, fill, figure, words in lines:
        parts.append(_text(0, y + 11, label))
        if not figure:
            parts.append(_text(0, y + LABEL + 11, words, "quiet" if words == "not measured" else "bad"))
            y += LABEL + BAR + 9
            continue
        long, top = figure.median / high * room, y + LABEL
        parts.append(f'<rect x="0" y="{top}" width="{max(long, 1):.1f}" height="{BAR}" rx="2" '
                     f'style="fill:{fill}"/>')
        if figure.high > figure.low:
            a, b = figure.low / high * room, figure.high / high * room
            middle = top + BAR / 2
            parts += [_line(a, middle, b, middle, "whisker"),
                      _line(a, middle - 3, a, middle + 3, "whisker"),
                      _line(b, middle - 3, b, middle + 3, "whisker")]
        end = max(long, figure.high / high * room) + 5
        parts.append(_text(end, top + BAR - 1, figures.show(figure.median), "number"))
        y += LABEL + BAR + 6
    return _svg(y + 2, parts, title)


def scaling(title, points, limit=None):
    """A line over 1, 2, 4, ... workers: points are (workers, Figure)."""
    left, right, top, bottom = 34, WIDE - 10, 12, 150
    marks = ticks(max(max(figure.high for _, figure in points), limit or 0) * 1.05)
    most = max(count for count, _ in points)
    def x(count):
        return left + 8 + (math.log2(count) / math.log2(most) if most > 1 else 0) * (right - left - 8)
    def y(value):
        return bottom - value / marks[-1] * (bottom - top)
    parts = []
    for mark in marks:
        parts += [_line(left, y(mark), right, y(mark), "grid"),
                  _text(left - 5, y(mark) + 4, f"{mark:g}", "quiet", "end")]
    if limit:
        parts += [_line(left, y(limit), right, y(limit), "limit"),
                  _text(right, y(limit) - 4, "1 worker + 15 %", "quiet", "end")]
    path = " ".join(f"{x(count):.1f},{y(figure.median):.1f}" for count, figure in points)
    parts.append(f'<polyline points="{path}" class="trace" style="stroke:var(--ring)"/>')
    for count, figure in points:
        parts += [_line(x(count), y(figure.low), x(count), y(figure.high), "whisker"),
                  f'<circle cx="{x(count):.1f}" cy="{y(figure.median):.1f}" r="4" '
                  'style="fill:var(--ring)"/>',
                  _text(x(count), bottom + 15, count, "quiet", "middle")]
    parts.append(_text((left + right) / 2, bottom + 31, "workers", "quiet", "middle"))
    return _svg(bottom + 36, parts, title)


def _between(low, high):
    """Powers of ten, with 2 and 5 where there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1,) if last - first > 2 else (1, 2, 5)
    return [factor * 10 ** power for power in range(first, last + 1) for factor in factors
            if low <= factor * 10 ** power <= high]


def duration(us):
    if us >= 1e6:
        return f"{us / 1e6:g} s"
    return f"{us / 1e3:g} ms" if us >= 1e3 else f"{us:g} µs"


def latencies(title, lines):
    """A line of four dots per program (p50, p90, p99, p99.9) on a logarithmic axis: lines are
    (label, colour, [four numbers])."""
    numbers = [max(number, 0.1) for _, _, row in lines for number in row]
    low, high = min(numbers) / 1.15, max(numbers) * 1.15
    def x(value):
        return 6 + math.log(max(value, 0.1) / low) / math.log(high / low) * (WIDE - 12)
    height = len(lines) * 28
    parts = []
    for mark in _between(low, high):
        parts += [_line(x(mark), 0, x(mark), height, "grid"),
                  _text(min(max(x(mark), 14), WIDE - 16), height + 13, duration(mark), "quiet",
                        "middle")]
    for number, (label, fill, row) in enumerate(lines):
        y = number * 28 + 20
        parts += [_text(0, y - 8, label),
                  f'<line x1="{x(row[0]):.1f}" y1="{y}" x2="{x(row[-1]):.1f}" y2="{y}" '
                  f'class="trace" style="stroke:{fill}"/>']
        for size, value in zip((5, 3.6, 3.6, 2.6), row):
            parts.append(f'<circle cx="{x(value):.1f}" cy="{y}" r="{size}" style="fill:{fill}"/>')
    return _svg(height + 18, parts, title)
