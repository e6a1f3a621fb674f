"""The brokers, each on a port that is free on 127.0.0.1 or on a Unix socket, with its data in a folder of its own."""

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

from .processes import Failed, descendant, start, stop, wait_until

BENCH = Path(__file__).resolve().parent.parent
JAVA_CLASSES = f"{BENCH}/java/target/classes:{BENCH}/java/target/lib/*"
RABBITMQ = Path("/usr/lib/rabbitmq")


class Broker:
    """A running broker: `address` for its clients, `pid` of the process that does its work."""

    address = "none"
    pid = 0

    def __init__(self, folder):
        self.folder = Path(folder)
        self.log = self.folder / "log"
        self.started = []

    def __enter__(self):
        try:
            self.launch()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        while self.started:
            stop(self.started.pop())

    def launch(self):
        """Starts it and waits until it serves. In-process peers have no broker."""

    def run(self, command, environment=None):
        process = start(command, self.log, environment, self.folder)
        self.started.append(process)
        return process


class Redis(Broker):
    """As Reseq's embedded Redis: a Unix socket, append-only file, fsync every second."""

    def launch(self):
        socket_path = self.folder / "redis.sock"
        settings = "--port 0 --appendonly yes --appendfsync everysec --maxmemory-policy noeviction"
        # BullMQ opens a connection for each of 1,000 queues at once.
        settings += " --tcp-backlog 4096"
        command = ["redis-server", *settings.split(), "--save", "", "--dir", self.folder]
        process = self.run([*command, "--unixsocket", socket_path])
        wait_until(lambda: _answers(socket_path), process, self.log)
        self.address, self.pid = str(socket_path), process.pid

    @staticmethod
    def version():
        return "Redis " + _version(["redis-server", "--version"], r"v=(\S+)")


class RabbitMQ(Broker):
    """Debian's package, with its own epmd. The server script runs as whoever runs this."""

    def launch(self):
        port, epmd_port, node_port = free_ports(3)
        environment = self._environment(port, epmd_port, node_port)
        # Erlang would leave an epmd of its own behind.
        epmd = self.run(["epmd", "-address", "127.0.0.1", "-port", str(epmd_port)], environment)
        wait_until(lambda: _listens(epmd_port), epmd, self.log)
        process = self.run([RABBITMQ / "bin/rabbitmq-server"], environment)
        wait_until(lambda: _listens(port), process, self.log, seconds=120)
        self.address, self.pid = f"127.0.0.1:{port}", descendant(process.pid, "beam.smp")
        if self.pid is None:
            raise Failed("no process named beam.smp below that of rabbitmq-server")

    def _environment(self, port, epmd_port, node_port):
        folder = self.folder
        (folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\nlog.file.level = warning\n")
        (folder / "enabled_plugins").write_text("[].")
        return {
            "HOME": str(folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(epmd_port),
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_DIST_PORT": str(node_port),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }

    @staticmethod
    def version():
        if not (RABBITMQ / "bin/rabbitmq-server").exists() or not shutil.which("epmd"):
            raise Failed("rabbitmq-server is missing; run bench/setup.sh")
        server = next(RABBITMQ.glob("lib/rabbitmq_server-*")).name.split("-")[1]
        return f"RabbitMQ {server}"


class Kafka(Broker):
    """One node that is its own controller (KRaft), out of the artefacts of Maven Central."""

    CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"

    def launch(self):
        port, controller_port = free_ports(2)
        settings = self.folder / "server.properties"
        settings.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller_port}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}\n"
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n"
            "controller.listener.names=CONTROLLER\n"
            "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n"
            "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
            f"group.initial.rebalance.delay.ms=0\nlog.dirs={self.folder}/data\n"
        )
        java = ["java", "-Xmx1g", "-cp", JAVA_CLASSES]
        formatting = self.run([*java, "kafka.tools.StorageTool", "format", "-t", self.CLUSTER, "-c", settings])
        if formatting.wait(timeout=60) != 0:
            raise Failed(f"Kafka's storage could not be formatted: {self.log.read_text()[-400:]}")
        process = self.run([*java, "kafka.Kafka", settings])
        wait_until(lambda: _listens(port), process, self.log)
        self.address, self.pid = f"127.0.0.1:{port}", process.pid

    @staticmethod
    def version():
        return "Kafka " + jar_version("kafka_2.13")


class InProcess(Broker):
    """No broker."""

    @staticmethod
    def version():
        return None


def jar_version(artifact):
    """The version of a library that setup.sh has put beside the programs in Java."""
    for jar in BENCH.glob(f"java/target/lib/{artifact}-[0-9]*.jar"):
        return jar.stem[len(artifact) + 1 :]
    raise Failed(f"{artifact} is missing; run bench/setup.sh (it needs Maven)")


def free_ports(count):
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _answers(path):
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.fspath(path))
            probe.sendall(b"PING\r\n")
            return probe.recv(5) == b"+PONG"
        except OSError:
            return False


def _version(command, pattern):
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise Failed(f"{command[0]} is missing; run bench/setup.sh") from None
    found = re.search(pattern, said.stdout + said.stderr)
    return found.group(1) if found else "?"
