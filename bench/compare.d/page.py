# SPDX-License-Identifier: GPL-2.0-or-later
"""report.html from what report.json holds: one file, no script, nothing from the network."""
import time
from html import escape

import charts
import figures

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --quiet: #5d6672; --edge: #d5dae0;
  --shade: #f4f6f8; --good: #14713d; --bad: #b3261e; --ring: #0b7285; --ring2: #66b3c2;
  --pgbouncer: #d9730d; --fleet: #efb27c; --floor-uring: #495057; --floor-epoll: #868e96;
  --direct: #b9c0c7; --other0: #7048a8; --other1: #b5468b; --other2: #5c7f1f }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e4e7eb; --quiet: #9aa4b0;
  --edge: #343b44; --shade: #1d2228; --good: #5bcf8d; --bad: #ff8a80; --ring: #3fc1d6; --ring2: #277f8f;
  --pgbouncer: #f0923a; --fleet: #9c622c; --floor-uring: #b7bec6; --floor-epoll: #7f8993;
  --direct: #566069; --other0: #b69ae6; --other1: #e68ac0; --other2: #a5c95c } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
main { max-width: 1140px; margin: 0 auto; padding: 24px 20px 60px }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 6px }
h2 { font-size: 1.25rem; margin: 44px 0 10px }
h3 { font-size: 1rem; margin: 0 0 2px }
p, ul { max-width: 76ch; margin: 8px 0 }
li { margin: 3px 0 }
.quiet { color: var(--quiet) } .good { color: var(--good) } .bad { color: var(--bad) }
b.good, b.bad { white-space: nowrap }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(340px, 1fr)); gap: 28px 32px;
  margin: 16px 0 }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(190px, 1fr)); gap: 12px;
  margin: 18px 0 }
.tile { background: var(--shade); border-radius: 8px; padding: 12px 14px }
.tile strong { display: block; font-size: 1.6rem; line-height: 1.25 }
.tile span { color: var(--quiet); font-size: .86rem; display: block }
.scroll { overflow-x: auto; margin: 12px 0; border: 1px solid var(--edge); border-radius: 8px }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums }
th, td { padding: 4px 10px; text-align: right; white-space: nowrap }
th { color: var(--quiet); font-weight: 500; border-bottom: 1px solid var(--edge); vertical-align: bottom }
th:first-child, td:first-child, .left { text-align: left }
tr.row td { background: var(--shade); font-weight: 600; padding-top: 7px }
td.wrap { white-space: normal; min-width: 12em }
svg { display: block; margin-top: 8px; max-width: 100%; height: auto; overflow: visible }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif }
svg text.quiet { fill: var(--quiet); font-size: 11px } svg text.bad { fill: var(--bad) }
svg text.number { font-weight: 600 }
.whisker { stroke: var(--ink); stroke-width: 1.2 } .grid { stroke: var(--edge); stroke-width: 1 }
.limit { stroke: var(--bad); stroke-width: 1.2; stroke-dasharray: 4 4 }
.trace { fill: none; stroke-width: 2 }
code { font: .85em ui-monospace, monospace; overflow-wrap: anywhere }
details { margin: 6px 0 } summary { cursor: pointer }
@media (max-width: 440px) { main { padding: 18px 14px 40px } .cards { grid-template-columns: 1fr }
  h1 { font-size: 1.4rem } th, td { padding: 4px 7px } td.wrap { min-width: 9em } }
"""
TABLES = {"tcp": "Server over TCP", "unix": "Server over a unix socket",
          "workers": "More workers", "postgres": "PostgreSQL and pgbench"}
HEADS = ["", "CPU per unit", "× PgBouncer", "× floor", "rate", "p50", "p90", "p99", "p99.9",
         "system calls", "switches", "more"]
HEADLINES = ["simple-64", "transaction-64", "extended-64", "churn-16", "bulk-100b", "pg-simple-64"]


def _figure(found):
    return figures.Figure(**found) if found else None


def _of(row, program, name):
    """A Figure that report.json has for a program, or None."""
    return _figure(row["shown"].get(program, {}).get("figures", {}).get(name))


def _times(row, program, other):
    return _figure(row["shown"].get(program, {}).get("times_" + other))


def _label(data, key):
    return data["programs"].get(key, {}).get("label", key)


# --- parts ----------------------------------------------------------------------------------------


def headline(data):
    tiles = []
    for table in data["tables"].values():
        for name in HEADLINES:
            row = table.get(name)
            cpu = row and _of(row, "ring-1", "cpu")
            if not cpu or len(tiles) == 6:
                continue
            lines = [f"{figures.show(cpu.median)} {row['cpu_unit'].replace('us/', 'µs/')} of CPU"]
            for other, words in (("pgbouncer", "PgBouncer"), ("floor", "the io_uring floor")):
                times = _times(row, "ring-1", other)
                if times:
                    lines.append(f"{figures.show_spread(times)} × {words}")
            first, rest = lines[0], lines[1:]
            times = _times(row, "ring-1", "pgbouncer")
            if times:
                first = f"{figures.show(times.median)} ×"
                rest = [f"PgBouncer's CPU ({figures.show(times.low)}..{figures.show(times.high)})",
                        lines[0]] + lines[2:]
            tiles.append(f'<div class="tile"><span>{escape(row["title"])}</span><strong>'
                         f"{escape(first)}</strong>"
                         f"<span>{'<br>'.join(map(escape, rest))}</span></div>")
        if tiles:
            break # the first table that has any
    return f'<div class="tiles">{"".join(tiles)}</div>' if tiles else ""


def bars_count(data):
    every = [bar for bars in data["bars"].values() for bar in bars]
    return {word: sum(bar["verdict"] == word for bar in every)
            for word in (figures.MET, figures.NOT_MET, figures.NOT_MEASURED)}


def bars_table(data):
    lines = []
    for table, bars in data["bars"].items():
        for bar in bars:
            row = data["tables"][table][bar["row"]]
            value = _figure(bar["value"])
            kind = {figures.MET: "good", figures.NOT_MET: "bad"}.get(bar["verdict"], "quiet")
            words = bar["why"] or ("the spread crosses the bar" if bar["close"] else "")
            where = "" if table == "tcp" else f" ({TABLES[table].lower()})"
            program = "" if bar["program"] == "ring-1" else f"; {_label(data, bar['program'])}"
            sign = "≥" if bar["at_least"] else "≤"
            measured = figures.show_spread(value).replace(" (", "<br>(")
            lines.append(
                f'<tr><td><b class="{kind}">{bar["verdict"]}</b></td>'
                f'<td class="left wrap">{escape(row["title"] + where)}<br><span class="quiet">'
                f'{escape(bar["text"])}{escape(program)}</span></td>'
                f'<td>{measured}</td><td>{sign} {bar["limit"]:g}</td>'
                f'<td class="left wrap">{escape(words)}</td></tr>')
    if not lines:
        return "<p>No row that was run has one.</p>"
    return ('<div class="scroll"><table><tr><th>verdict</th><th class="left">what</th>'
            f'<th>measured</th><th>bar</th><th></th></tr>{"".join(lines)}</table></div>')


def _card(title, note, body):
    return f'<div><h3>{escape(title)}</h3><div class="quiet">{escape(note)}</div>{body}</div>'


def cpu_cards(data, table):
    cards = []
    for row in data["tables"][table].values():
        name, unit = ("memory", "bytes per client") if row["unit"] == "client" else (
            "cpu", "CPU seconds per GB" if row["unit"] == "GB" else f"CPU µs per {row['unit']}")
        lines = []
        for key, shown in row["shown"].items():
            if key == "direct":
                continue # has no CPU time of a pooler
            words = figures.show_errors(shown["errors"], 52) or "not measured"
            lines.append((_label(data, key), charts.colour(key, row["shown"]),
                          _of(row, key, name), words))
        if lines:
            cards.append(_card(row["title"], unit, charts.bars(row["title"], lines)))
    return f'<div class="cards">{"".join(cards)}</div>'


def latency_cards(data, table):
    cards = []
    for row in data["tables"][table].values():
        lines = []
        for key in row["shown"]:
            four = [_of(row, key, name) for name in ("p50", "p90", "p99", "p999")]
            if all(four):
                lines.append((_label(data, key), charts.colour(key, row["shown"]),
                              [one.median for one in four]))
        if lines and row["unit"] != "GB":
            cards.append(_card(row["title"], "median, p90, p99, p99.9",
                               charts.latencies(row["title"], lines)))
    return f'<div class="cards">{"".join(cards)}</div>' if cards else ""


def scaling_part(data):
    row = data["tables"].get("workers", {}).get("workers")
    if not row:
        return ""
    points = [(int(key.split("-")[1]), _of(row, key, "cpu")) for key in row["shown"]]
    points = [point for point in points if point[1]]
    if not points:
        return ""
    limit = points[0][1].median * 1.15 if points[0][0] == 1 else None
    lines = []
    for key in row["shown"]:
        found = [_of(row, key, name) for name in ("cpu", "rate", "lent", "mails", "turns", "switches")]
        lines.append(f"<tr><td>{escape(_label(data, key))}</td>" + "".join(
            f"<td>{figures.show_spread(one) if place < 2 else (f'{one.median:.4f}' if one else '-')}"
            "</td>" for place, one in enumerate(found)) + "</tr>")
    locks = "".join(f"<li>{escape(name)}: {value:g}</li>" for name, value in
                    (data.get("locks") or {}).items())
    chart = charts.scaling("CPU per transaction over workers", points, limit)
    return (
        "<h2>More workers</h2><p>CPU per transaction with 256 clients against the number of workers. "
        f"This machine has {len(data['machine']['cpus'])} CPUs: more workers than that share them."
        f'</p><div class="cards">{_card("CPU µs per transaction", "", chart)}</div>'
        '<div class="scroll"><table><tr><th></th><th>CPU µs/tx</th><th>tx/s</th>'
        "<th>servers handed over per tx</th><th>mails per tx</th><th>turns per tx</th>"
        f"<th>switches per tx</th></tr>{''.join(lines)}</table></div>"
        + (f"<p>Locked instructions that ringbouncer and liburing execute per transaction, one worker "
           f"(bench/locks):</p><ul>{locks}</ul>" if locks else ""))


def _more(row, key, shown):
    out = []
    for name, words in (("growth", "{} × its CPU with 64 clients"), ("tail", "p99/p50 {}"),
                        ("jain", "Jain {}"), ("crowd", "fullest / mean {}")):
        found = _of(row, key, name)
        if found and (name not in ("tail", "jain") or "growth" in shown["figures"]):
            out.append(words.format(figures.show(found.median)))
    mean = _of(row, key, "mean")
    if mean and not _of(row, key, "p50"): # pgbench tells no more
        out.append(f"mean latency {figures.show(mean.median)}")
    return ", ".join(out)


def _line(data, row, key, shown):
    label = f"<td>{escape(_label(data, key))}</td>"
    if shown["errors"]:
        words = figures.show_errors(shown["errors"], 160)
        return (f'<tr>{label}<td colspan="{len(HEADS) - 1}" class="left bad wrap">errors, no figure: '
                f"{escape(words)}</td></tr>")
    if row["unit"] == "client":
        memory, start = _of(row, key, "memory"), _of(row, key, "memory_start")
        return (f'<tr>{label}<td>{figures.show_spread(memory)} bytes</td><td colspan="10" class="left">'
                f"{figures.show(start.median) if start else '-'} MB at start</td></tr>")
    def one(name):
        found = _of(row, key, name)
        return figures.show(found.median) if found else "-"
    rate = f"{one('rate')} {row['rate_unit']}"
    cells = [figures.show_spread(_of(row, key, "cpu")),
             figures.show_spread(_times(row, key, "pgbouncer")),
             figures.show_spread(_times(row, key, "floor")), rate,
             *(one(name) for name in ("p50", "p90", "p99", "p999", "syscalls", "switches")),
             _more(row, key, shown)]
    return f"<tr>{label}{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def full_table(data, table):
    lines = [f"<th>{escape(head)}</th>" for head in HEADS]
    lines = [f"<tr>{''.join(lines)}</tr>"]
    for row in data["tables"][table].values():
        unit = "" if row["unit"] == "client" else f" ({row['cpu_unit'].replace('us/', 'µs/')})"
        lines.append(f'<tr class="row"><td colspan="{len(HEADS)}">{escape(row["title"] + unit)}'
                     "</td></tr>")
        lines += [_line(data, row, key, shown) for key, shown in row["shown"].items()]
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def how(data):
    settings = data["settings"]
    where = "".join(f"<li>{escape(one['label'])}: {escape(one['placement'])}</li>"
                    for one in data["programs"].values() if one["placement"])
    versions = "".join(f"<li>{escape(one['label'])}: {escape(one['version'])}</li>"
                       for one in data["programs"].values() if one["version"])
    sums = "".join(f"<li><code>{escape(name)} {value}</code></li>"
                   for name, value in data["checksums"].items())
    return f"""
<h2>How it was measured</h2>
<ul>
<li>Each program got the same work in turn, {settings['rounds']} rounds of {settings['seconds']:g} s
after a warm-up of {settings['warmup']:g} s, interleaved, with a fresh process each time. Shown are
medians, with the smallest and the largest round. Ratios are taken round by round.</li>
<li>The server is bench/stub, which answers like PostgreSQL at next to no cost (one thread). bench/load
checks that each answer is the one that was asked for; a row with any error has no figure. Both run in
a closed loop: each client asks again as soon as it has its answer.</li>
<li>CPU is the time of all threads of all processes of the pooler, from
<code>/proc/PID/task/*/schedstat</code>, read at both ends of the window.</li>
<li>Every pooler: transaction pooling, one pool of 20 servers, no password, no log lines for
connections. A fleet of N PgBouncers shares a port (so_reuseport); its pool size is divided by N.</li>
<li>The floor is a relay of one server connection per client without any pooling or parsing: the least
that a program between client and server can cost with that interface.</li>
<li>System calls: {escape(data['syscalls'])}. Latencies and waiting times in µs.</li>
<li>Idle clients: resident memory with that many more clients, divided by their number; the kernel's
part comes on top.</li>
<li>Clients that think: waiting is what an answer took beyond the 10 ms that the server was busy.</li>
</ul>
<h3>Who ran where</h3><ul>{where}</ul>
<h3>Versions</h3><ul>{versions}
<li>ringbouncer's tree: <code>{escape(data['commit'] or 'unknown')}</code>
{'with changes' if data['changed'] else ''}</li></ul>
{'<h3>SHA-256 of the sources of the floor</h3><ul>' + sums + '</ul>' if sums else ''}
<details><summary>Commands</summary><ul>{commands(data)}</ul></details>"""


def commands(data):
    out = [f"<li><code>{escape(' '.join(data['command']))}</code></li>"]
    for table in data["tables"].values():
        for name, row in table.items():
            for key, cell in row["cells"].items():
                sample = next((one for one in cell if one.get("program_commands")), None)
                if sample:
                    words = sample["program_commands"][:2] + [sample.get("load", "")]
                    out.append(f"<li>{escape(name)}, {escape(key)}: " + "; ".join(
                        f"<code>{escape(word)}</code>" for word in words if word) + "</li>")
    return "".join(out)


def caveats(data):
    notes = list(data["notes"])
    notes += [f"{label} left out: {why}" for label, why in data["missing"].items()]
    if data["machine"]["virtual"] != "none":
        notes.append(f"a virtual machine ({data['machine']['virtual']}): system calls and wake-ups cost "
                     "more than on bare metal, which flatters whoever makes fewer of them")
    notes.append("everything runs on one machine over loopback: no network card, no real latency")
    seen = "".join(f"<li>{escape(one)}</li>" for one in dict.fromkeys(notes))
    return f"<h2>What limits these figures</h2><ul>{seen}</ul>"


def make(data):
    count = bars_count(data)
    day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(data["started"]))
    parts = [
        "<h1>What ringbouncer costs beside PgBouncer</h1>",
        f'<p class="quiet">{day}, {escape(data["machine"]["words"])}</p>',
        "<p>A connection pooler stands between programs and PostgreSQL. What it costs is the CPU time "
        "that it spends on each transaction; less is better. Below: ringbouncer beside PgBouncer, and "
        "beside the floor, a bare relay that does nothing but pass bytes on.</p>",
        headline(data),
        f'<p><b class="good">Bars: {count[figures.MET]} met</b>, <b class="bad">'
        f"{count[figures.NOT_MET]} not met</b>, {count[figures.NOT_MEASURED]} not measured.</p>",
        "<h2>Bars</h2><p>What ringbouncer wants to be held to, with one worker unless another program "
        "is named.</p>", bars_table(data)]
    for table in data["tables"]:
        if table == "workers":
            parts.append(scaling_part(data))
            continue
        parts += [f"<h2>{TABLES[table]}: CPU</h2><p>Shorter is cheaper. The thin line goes from the "
                  "smallest to the largest round.</p>", cpu_cards(data, table)]
        cards = latency_cards(data, table)
        if cards:
            parts += [f"<h2>{TABLES[table]}: latency</h2><p>Further left is faster. The dots of a "
                      "line, from left to right: median, 90 %, 99 %, 99.9 %.</p>", cards]
        parts += [f"<h2>{TABLES[table]}: all figures</h2>", full_table(data, table)]
    parts += [how(data), caveats(data)]
    return ("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>ringbouncer beside PgBouncer, {day}</title><style>{STYLE}</style></head>"
            f"<body><main>{''.join(parts)}</main></body></html>\n")
