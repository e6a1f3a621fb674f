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
    text = ["# Reseq and its peers", "", *_machine(settings), ""]
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


def _machine(settings):
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*:\s*(.+)", file.read())
    model = model.group(1) if model else platform.machine()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    return [
        f"Written by `{' '.join(['bench/run', *settings])}`.",
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
    figures = [("messages/s", "messages_per_s"), ("store CPU", "store_cpu_us")]
    if case.rate > 0 or case.half_of is not None:
        of_store = [("store CPU", "store_cpu_us")] if case.rate > 0 and case.keys > 1 else []
        figures = [*of_store, ("p50", "p50_us"), ("p99", "p99_us")]
    heads = ["", *(peer.contestant.label for peer in theirs)]
    lines = ["Reseq's figure over the peer's:", "", _line(heads), _line(["---"] + ["---:"] * len(theirs))]
    for row in ours:
        for name, key in figures:
            cells = [_ratio(row.median(key), peer.median(key)) for peer in theirs]
            lines.append(_line([f"{row.label}: {name}", *cells]))
    return [*lines, ""]


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
