"""The table."""

import os
import platform
import re
from statistics import median


class Row:
    """All runs of one contestant in one case."""

    def __init__(self, contestant, case):
        self.contestant = contestant
        self.case = case
        self.runs = []
        self.has_failed = False

    @property
    def label(self):
        return f"{self.contestant.label}: {self.contestant.loads[self.case.name].how}"

    def median(self, name):
        values = [getattr(run, name) for run in self.runs]
        return None if None in values else median(values)

    @property
    def order(self):
        """How many messages came after a later one of their key."""
        if all(run.in_order for run in self.runs):
            return "0"
        worst = max((run.out_of_order or 0 for run in self.runs))
        return f"{worst:,} of {self.runs[0].messages:,}" if worst else "yes"


def write(path, rows, versions, failures, settings):
    """Writes the whole report. `rows` come in the order in which they are to stand."""
    text = ["# Reseq and its peers", "", *machine(["bench/run", *settings]), "", *_lead(rows)]
    for case in dict.fromkeys(row.case for row in rows):
        of_case = [row for row in rows if row.case == case and row.runs]
        if of_case:
            text += [f"## {case.title}", "", *_table(case, of_case), "", *_ratios(case, of_case)]
    text += ["## Versions", ""]
    text += [f"- {label}: {', '.join(parts)}" for label, parts in versions.items()]
    if failures:
        text += ["", "## What could not run", ""]
        text += [f"- {what}: {why}" for what, why in failures.items()]
    path.write_text("\n".join(text) + "\n")


# What the page begins with: traffic in bulk, and traffic that is spread over many quiet keys.
LEAD = [("nothing", "bulk"), ("sparse-1000", "sparse")]


def _lead(rows):
    """One line for each figure of the first way of running Reseq, over each peer's; with the absolute figure."""
    lines, peers = [], {}
    for name, kind in LEAD:
        of_case = [row for row in rows if row.case.name == name and row.runs]
        ours = next((row for row in of_case if row.contestant.is_reseq), None)
        theirs = {row.contestant.label: row for row in of_case if not row.contestant.is_reseq}
        if ours and theirs:
            peers |= theirs
            lines += [(kind, ours, theirs, figure) for figure in _figures(ours.case)]
    if not lines:
        return []
    text = ["## In bulk and one at a time", ""]
    text += ["Reseq's figure, and this figure over the peer's. *Bulk* is work that does nothing, as fast as possible;"]
    text += ["*sparse* is many quiet keys that get their messages one at a time, at the same rate for all.", ""]
    text += [_line(["", "Reseq", *peers]), _line(["---"] + ["---:"] * (len(peers) + 1))]
    for kind, ours, theirs, (name, key) in lines:
        unit = {"p50_us": 1000, "p99_us": 1000}.get(key, 1)
        cells = [f"{kind}: {name}", number(ours.median(key) / unit)]
        cells += [_ratio(ours.median(key), theirs[peer].median(key)) if peer in theirs else "–" for peer in peers]
        text.append(_line(cells))
    return [*text, ""]


def machine(command):
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*:\s*(.+)", file.read())
    model = model.group(1) if model else platform.machine()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    return [
        f"Written by `{' '.join(command)}`.",
        f"One machine for everything: {os.cpu_count()} cores ({model}), {memory} GiB, "
        f"{platform.system()} {platform.release()}. Machines differ; what counts are the ratios within one run.",
        "Medians; in brackets the lowest and the highest run. CPU is in µs a message. "
        "[README.md](README.md) says what is not the same between the peers.",
    ]


def _table(case, rows):
    with_latency = case.rate > 0 or case.half_of is not None
    heads = ["", "messages/s", *(["p50 ms", "p99 ms"] if with_latency else [])]
    heads += ["store CPU", "service CPU", "client CPU", "out of order"]
    lines = [_line(heads), _line(["---"] + ["---:"] * (len(heads) - 1))]
    for row in sorted(rows, key=lambda row: not row.contestant.is_reseq):
        rates = [run.messages_per_s for run in row.runs]
        rate = number(median(rates))
        if len(rates) > 1:
            rate += f" [{number(min(rates))}–{number(max(rates))}]"
        cells = [row.label, rate]
        if with_latency:
            cells += [number(row.median(name) / 1000) for name in ("p50_us", "p99_us")]
        cells += [number(row.median(f"{who}_cpu_us")) for who in ("store", "service", "client")]
        lines.append(_line([*cells, row.order]))
    return lines


def _ratios(case, rows):
    """Reseq's figures over those of each peer."""
    ours = [row for row in rows if row.contestant.is_reseq]
    theirs = [row for row in rows if not row.contestant.is_reseq]
    if not ours or not theirs:
        return []
    figures = _figures(case)
    heads = ["", *(peer.contestant.label for peer in theirs)]
    lines = ["Reseq's figure over the peer's:", "", _line(heads), _line(["---"] + ["---:"] * len(theirs))]
    for row in ours:
        for name, key in figures:
            cells = [_ratio(row.median(key), peer.median(key)) for peer in theirs]
            lines.append(_line([f"{row.label}: {name}", *cells]))
    return [*lines, ""]


def _figures(case):
    """What is compared in this case: its name in the table, and in a run."""
    if case.rate > 0 or case.half_of is not None:
        of_store = [("store CPU, µs", "store_cpu_us")] if case.rate > 0 and case.keys > 1 else []
        return [*of_store, ("p50, ms", "p50_us"), ("p99, ms", "p99_us")]
    return [("messages/s", "messages_per_s"), ("store CPU, µs", "store_cpu_us")]


def _line(cells):
    return "| " + " | ".join(cells) + " |"


def _ratio(ours, theirs):
    if ours is None or not theirs:
        return "–"
    ratio = ours / theirs
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}"


def number(value):
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
