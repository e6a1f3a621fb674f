"""The peers. Each is a program of its own; all take the same arguments."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass

from .brokers import BENCH, JAVA_CLASSES, InProcess, Kafka, RabbitMQ, Redis, jar_version
from .cargo import target_dir
from .cases import SEED
from .contestants import RUN_SECONDS_MAX, Contestant, Load, Result
from .processes import Failed, output_of

RUST = target_dir(BENCH / "rust")
ONE_AT_A_TIME = "one at a time"
FOUR = Load("four at a time", 4)


@dataclass(frozen=True)
class Peer(Contestant):
    command: tuple = ()
    parts: tuple = ()

    def versions(self):
        program = shutil.which(str(self.command[0]))
        if program is None:
            raise Failed(f"{self.command[0]} is missing; run bench/setup.sh")
        broker = self.broker.version()
        return ([broker] if broker else []) + [part() for part in self.parts]

    def measure(self, case, load, messages, rate, broker):
        arguments = {
            "case": case.name,
            "messages": messages,
            "keys": case.keys,
            "work-min-us": case.work_min_us,
            "work-max-us": case.work_max_us,
            "rate": rate,
            "seed": SEED,
            "order": "strict" if case.strict else "none",
            "concurrency": load.concurrency,
            "address": broker.address,
            "store-pid": broker.pid,
        }
        command = list(self.command)
        for name, value in arguments.items():
            command += [f"--{name}", value]
        said = json.loads(output_of(command, RUN_SECONDS_MAX).splitlines()[-1])
        cpu, latency = said["cpu_us_per_message"], said["latency_us"]
        return Result(
            messages=said["messages"],
            messages_per_s=said["messages_per_s"],
            in_order=said["in_order"],
            out_of_order=said["out_of_order"],
            p50_us=latency["p50"],
            p99_us=latency["p99"],
            store_cpu_us=cpu["store"],
            service_cpu_us=None,
            client_cpu_us=cpu["client"],
        )


def node():
    return "Node " + _say(["node", "--version"], r"v(\S+)")


def java():
    return "Java " + _say(["java", "-version"], r'version "(\S+)"')


def package(name):
    def version():
        manifest = BENCH / "node/node_modules" / name / "package.json"
        if not manifest.exists():
            raise Failed(f"{name} is missing; run bench/setup.sh (it needs npm)")
        return f"{name} {json.loads(manifest.read_text())['version']}"

    return version


def crate(name):
    def version():
        lock = (BENCH / "rust/Cargo.lock").read_text()
        found = re.search(rf'name = "{name}"\nversion = "([^"]+)"', lock)
        return f"{name} {found.group(1)}"

    return version


def jar(artifact):
    return lambda: f"{artifact} {jar_version(artifact)}"


def _say(command, pattern):
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(pattern, said.stdout + said.stderr)
    return found.group(1) if found else "?"


def _java(name):
    return ("java", "-Xmx1g", "-cp", JAVA_CLASSES, f"reseq.bench.{name}")


def sparse(load):
    return {name: load for name in ("sparse-1000", "sparse-1000-fast", "sparse-100")}


PEERS = [
    Peer(
        "bullmq",
        "BullMQ",
        command=("node", BENCH / "node/bullmq.js"),
        broker=Redis,
        parts=(package("bullmq"), package("ioredis"), node),
        loads={
            "nothing": Load("concurrency 100", 100, 80_000),
            "work-1": Load(ONE_AT_A_TIME, 1, 1_500),
            "work-100": Load("a queue a key, " + ONE_AT_A_TIME, 1, 100_000),
            "half-100": Load("a queue a key, " + ONE_AT_A_TIME, 1),
            **sparse(Load("a queue a key, " + ONE_AT_A_TIME, 1)),
            "slow": Load(ONE_AT_A_TIME, 1),
            "slow-4": FOUR,
        },
    ),
    Peer(
        "rabbitmq",
        "RabbitMQ",
        command=("node", BENCH / "node/rabbitmq.js"),
        broker=RabbitMQ,
        parts=(package("amqplib"), node),
        loads={
            "nothing": Load("confirms, prefetch 100", 100, 200_000),
            "work-1": Load("single active consumer", 10, 1_500),
            "work-100": Load("a queue a key, single active consumer", 10, 120_000),
            "half-100": Load("a queue a key, single active consumer", 10),
            **sparse(Load("a queue a key, single active consumer", 10)),
            "slow": Load("single active consumer", 10),
            "slow-4": FOUR,
        },
    ),
    Peer(
        "streams",
        "Redis Streams",
        command=(RUST / "release/streams",),
        broker=Redis,
        parts=(crate("redis"),),
        loads={"nothing": Load("batches of 100, no lease, no retry", 1, 1_000_000)},
    ),
    Peer(
        "buffered",
        "in one process, futures",
        command=(RUST / "release/buffered",),
        broker=InProcess,
        parts=(crate("futures"), crate("tokio")),
        loads={
            "nothing": Load("buffer_unordered(100), not durable", 100, 5_000_000),
            "work-1": Load("buffered(1000), not durable", 1000, 500_000),
            "work-100": Load("buffered(100) a key, not durable", 100, 1_000_000),
            "slow": Load("buffered(8), not durable", 8),
        },
    ),
    Peer(
        "camel",
        "Camel's resequencer",
        command=_java("Camel"),
        broker=InProcess,
        parts=(jar("camel-core"), java),
        loads={
            "nothing": Load("ordered, not durable", 16, 100_000),
            "work-1": Load("200 threads, not durable", 200, 100_000),
            "work-100": Load("400 threads, not durable", 400, 100_000),
            "half-100": Load("400 threads, not durable", 400),
            "slow": Load("8 threads, not durable", 8),
        },
    ),
    Peer(
        "parallel-consumer",
        "Parallel Consumer on Kafka",
        command=_java("ParallelConsumer"),
        broker=Kafka,
        parts=(jar("parallel-consumer-core"), java),
        loads={
            "nothing": Load("UNORDERED, 100 threads", 100, 200_000),
            "work-1": Load("KEY, 100 threads", 100, 1_500),
            "work-100": Load("KEY, 100 threads", 100, 120_000),
            "half-100": Load("KEY, 100 threads", 100),
            **sparse(Load("KEY, 100 threads", 100)),
            "long-10": Load("KEY, 100 threads", 100, 60_000),
            "long-50": Load("KEY, 100 threads", 100, 12_000),
            "long-100": Load("KEY, 100 threads", 100, 6_000),
            "long-100-1": Load("KEY, 100 threads", 100, 60),
            "slow": Load("KEY, 100 threads", 100),
            "slow-4": Load("UNORDERED, 4 threads", 4),
        },
    ),
]
