"""Reseq's rows: `reseq-bench`, which starts its own embedded Redis and its own processes."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .brokers import BENCH, Redis
from .cargo import target_dir
from .cases import SEED
from .contestants import RUN_SECONDS_MAX, Contestant, Load, Result
from .processes import Failed, output_of

RESEQ_BENCH = Path(os.environ.get("RESEQ_BENCH") or target_dir(BENCH.parent) / "release/reseq-bench")
# It measures the program beside it.
RESEQ = RESEQ_BENCH.with_name("reseq")
ROLES = ("ingest", "processor", "sender")
THREE_PODS = ("--ingest", "3", "--processors", "3", "--senders", "3")
# By default a destination delivers 64 lanes at once; each of 100 destinations delivers its one anyway.
ALL_LANES = ("--set", "destination.delivery.lanes_max=128")


@dataclass(frozen=True)
class Reseq(Contestant):
    way: str = "tcp"
    # As `way`, unless given.
    way_out: str = ""
    destinations: int = 1
    keys: int = 1
    is_reseq: bool = True

    def versions(self):
        for program in (RESEQ, RESEQ_BENCH):
            if not program.exists():
                raise Failed(f"{program} is missing; run make build-bench")
        said = subprocess.run([RESEQ, "--version"], capture_output=True, text=True, check=True)
        return [said.stdout.strip().replace("reseq", "Reseq"), Redis.version()]

    def measure(self, case, load, messages, rate, broker):
        arguments = {
            "messages": messages,
            "ordering": "key" if self.keys > 1 else "destination",
            # One destination for each key of the case, if the way does not say how many.
            "destinations": self.destinations or case.keys,
            "keys": self.keys,
            "transform": "native",
            "work-min-us": case.work_min_us,
            "work-max-us": case.work_max_us,
            "concurrency": load.concurrency,
            "in": self.way,
            "out": self.way_out or self.way,
            "seed": SEED,
        }
        if rate > 0:
            arguments["rate"] = rate
        command = [RESEQ_BENCH, "--json", *load.extra]
        for name, value in arguments.items():
            command += [f"--{name}", value]
        said = json.loads(output_of(command, RUN_SECONDS_MAX).splitlines()[-1])
        if not said["complete"]:
            raise Failed(f"{said['delivered']} of {said['accepted']} messages arrived")
        cpu, latency = said["cpu_us_per_message"], said["latency_us"]
        return Result(
            messages=messages,
            messages_per_s=said["messages_per_s"],
            in_order=said["in_order"],
            out_of_order=0 if said["in_order"] else None,
            p50_us=latency["p50"],
            p99_us=latency["p99"],
            store_cpu_us=cpu["redis"],
            service_cpu_us=sum(cpu.get(role, 0) for role in ROLES),
            client_cpu_us=cpu["bench"],
        )


WAYS = [
    Reseq(
        "reseq",
        "Reseq, TCP",
        loads={
            "nothing": Load("one lane", 1000, 300_000),
            "work-1": Load("one lane, 1000 in work", 1000, 200_000),
            "slow": Load("one lane, 16 in work", 16),
            "long-100-1": Load("one lane, 1000 in work", 1000, 100_000),
        },
    ),
    Reseq(
        "reseq-100",
        "Reseq, TCP",
        destinations=100,
        loads={
            "nothing": Load("100 destinations", 1000, 300_000),
            "work-100": Load("100 destinations, 1000 in work", 1000, 200_000),
            "half-100": Load("100 destinations, 1000 in work", 1000),
        },
    ),
    Reseq(
        "reseq-keys",
        "Reseq, TCP",
        keys=100,
        loads={
            "nothing": Load("100 ordering keys", 1000, 300_000, ALL_LANES),
            "work-100": Load("100 ordering keys, 1000 in work", 1000, 200_000, ALL_LANES),
            "half-100": Load("100 ordering keys, 1000 in work", 1000, extra=ALL_LANES),
        },
    ),
    Reseq(
        "reseq-1000-keys",
        "Reseq, HTTP in, TCP out",
        way="http-batch",
        way_out="tcp",
        keys=1000,
        loads={
            f"long-{work_ms}": Load("1,000 ordering keys, 4000 in work", 4000, 150_000, ALL_LANES)
            for work_ms in (10, 50, 100)
        },
    ),
    Reseq(
        "reseq-sparse",
        "Reseq, HTTP in, TCP out",
        way="http-batch",
        way_out="tcp",
        destinations=0,
        loads={
            name: Load("a destination a key", 256)
            for name in ("sparse-1000", "sparse-1000-fast", "sparse-100")
        },
    ),
    Reseq(
        "reseq-sparse-3",
        "Reseq, HTTP in, TCP out",
        way="http-batch",
        way_out="tcp",
        destinations=0,
        loads={
            name: Load("a destination a key, 3 processes of each role", 256, extra=THREE_PODS)
            for name in ("sparse-1000", "sparse-1000-fast")
        },
    ),
    Reseq(
        "reseq-1000",
        "Reseq, HTTP in, TCP out",
        way="http-batch",
        way_out="tcp",
        destinations=1000,
        # As many messages as destinations are on their way, so that each is alone in its destination.
        loads={
            "nothing": Load("1,000 destinations, one message at a time each", 1000, 60_000, ("--pending", "1000"))
        },
    ),
    Reseq(
        "reseq-http",
        "Reseq, HTTP",
        way="http-batch",
        loads={"nothing": Load("one lane, batches of 100", 1000, 150_000, extra=("--batch", "100"))},
    ),
]
