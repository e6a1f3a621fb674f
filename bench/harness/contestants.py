"""What every contestant has in common, and what one run of it says."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from .brokers import InProcess

RUN_SECONDS_MAX = 900


@dataclass(frozen=True)
class Load:
    """How a contestant runs a case."""

    how: str
    concurrency: int
    # How many messages a long run of some seconds takes.
    messages: int = 0
    # What only this contestant is given.
    extra: tuple = ()


@dataclass
class Result:
    """One run. CPU is in µs a message, latency in µs; None where there is none."""

    messages: int
    messages_per_s: float
    in_order: bool
    out_of_order: int | None
    p50_us: float
    p99_us: float
    store_cpu_us: float | None
    service_cpu_us: float | None
    client_cpu_us: float


@dataclass(frozen=True)
class Contestant:
    """A peer, or one way of running Reseq."""

    name: str
    label: str
    loads: dict = field(default_factory=dict)
    broker: type = InProcess
    is_reseq: bool = False

    def versions(self):
        """The versions of what it is made of. Fails when something is missing."""
        raise NotImplementedError

    def measure(self, case, load, messages, rate, broker):
        """Runs a case once."""
        raise NotImplementedError

    def run(self, case, messages, rate):
        """Runs a case once, with a fresh broker and nothing left behind."""
        with tempfile.TemporaryDirectory(prefix="reseq-bench-") as folder:
            with self.broker(Path(folder)) as broker:
                return self.measure(case, self.loads[case.name], messages, rate, broker)
