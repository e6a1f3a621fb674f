"""What `bench/connect` starts: Reseq, reseq-connect and Postgres beside the brokers, and what it reads of them."""

import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from .brokers import BENCH, Broker, Redis, free_ports
from .cargo import target_dir
from .processes import Failed, descendant, output_of, wait_until

RELEASE = target_dir(BENCH.parent) / "release"
# Reseq refuses variables with its prefix that it does not know.
RESEQ = Path(os.environ.pop("RESEQ_BIN", None) or RELEASE / "reseq")
RESEQ_CONNECT = RESEQ.with_name("reseq-connect")
TICKS = os.sysconf("SC_CLK_TCK")


def version():
    """The versions of Reseq's programs."""
    for program in (RESEQ, RESEQ_CONNECT):
        if not program.exists():
            raise Failed(f"{program} is missing; run make bench-connect")
    said = subprocess.run([RESEQ, "--version"], capture_output=True, text=True, check=True)
    return said.stdout.strip().replace("reseq", "Reseq")


class Service(Broker):
    """One pod of Reseq with all roles, over a Redis of its own. `pid` is that of the pod."""

    def __init__(self, folder, destinations):
        super().__init__(folder)
        self.destinations = destinations
        self.redis = Redis(self.folder / "redis")
        self.redis.folder.mkdir()

    def launch(self):
        self.redis.launch()
        (port,) = free_ports(1)
        config = self.folder / "reseq.toml"
        config.write_text(
            f'[auth]\nmode = "none"\n[outgoing]\nallow = ["127.0.0.1/32"]\n[http]\nlisten = "127.0.0.1:{port}"\n'
            f'[redis]\nurl = "unix://{self.redis.address}"\n{self.destinations}'
        )
        process = self.run([RESEQ, "serve", "--config", config])
        self.address = f"http://127.0.0.1:{port}"
        wait_until(lambda: get(f"{self.address}/readyz") is not None, process, self.log)
        self.pid = process.pid

    def __exit__(self, *reason):
        super().__exit__(*reason)
        self.redis.__exit__()

    def has(self, destination):
        """How many messages the destination has had, and how many wait."""
        stats = json.loads(get(f"{self.address}/v1/destinations/{destination}/stats"))
        return stats["last_sequence"], stats["pending"]

    def marks(self, destination):
        """The marks of all sources of the destination."""
        page = json.loads(get(f"{self.address}/v1/destinations/{destination}/sources"))
        return [item["mark"] for item in page["items"]]


class Connector(Broker):
    """reseq-connect with one source or sink."""

    def __init__(self, folder, service, sections):
        super().__init__(folder)
        self.service, self.sections = service, sections

    def launch(self):
        (port,) = free_ports(1)
        config = self.folder / "connect.toml"
        config.write_text(
            f'reseq.url = "{self.service.address}"\nhttp.listen = "127.0.0.1:{port}"\nlog.format = "text"\n'
            f"{self.sections}"
        )
        self.address = f"http://127.0.0.1:{port}"
        self.pid = self.run([RESEQ_CONNECT, "run", "--config", config]).pid

    def metric(self, name):
        """The sum over all sources, or 0 before there is one."""
        found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", get(f"{self.address}/metrics") or "", re.MULTILINE)
        return sum(map(float, found))


class Postgres(Broker):
    """Debian's package, with its own data and the table `outbox`. It refuses to run as root, so `nobody` runs it."""

    TABLE = (
        "CREATE TABLE outbox (id bigserial PRIMARY KEY, key text, body jsonb NOT NULL);"
        "CREATE PUBLICATION outbox FOR TABLE outbox WITH (publish = 'insert')"
    )

    def launch(self):
        (port,) = free_ports(1)
        who = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.getuid() == 0 else []
        self.folder.chmod(0o777)
        data = self.folder / "data"
        output_of([*who, self.program("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8"], 120)
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": port,
            "unix_socket_directories": "",
            "wal_level": "logical",
            "track_commit_timestamp": "on",
        }
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        process = self.run([*who, self.program("postgres"), "-D", data, *flags])
        self.address, self.pid = port, process.pid
        wait_until(lambda: self.psql("SELECT 1", check=False).returncode == 0, process, self.log)
        self.psql(self.TABLE)

    def psql(self, text, check=True):
        command = [self.program("psql"), *self.login(), "-qAt", "-v", "ON_ERROR_STOP=1", "-f", "-"]
        said = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if check and said.returncode != 0:
            raise Failed(said.stderr)
        return said

    def login(self):
        return ["-h", "127.0.0.1", "-p", str(self.address), "-U", "postgres", "-d", "postgres"]

    @staticmethod
    def program(name):
        folders = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        found = folders[-1] if folders else shutil.which(name)
        if not found:
            raise Failed(f"{name} is missing; run make setup-tests (Debian: apt-get install postgresql)")
        return found

    @classmethod
    def version(cls):
        said = subprocess.run([cls.program("postgres"), "--version"], capture_output=True, text=True, check=True)
        return re.sub(r"postgres \(PostgreSQL\) (\S+).*", r"PostgreSQL \1", said.stdout.strip())


def get(url):
    """The body of the answer, or None if there is none with status 200."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read().decode()
    except (urllib.error.URLError, OSError):
        return None


def wait_for(what, ready, seconds=600):
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise Failed(f"never: {what}")
        time.sleep(0.02)


def cpu_us(pid):
    """The CPU time of a process and its children that were waited for, in µs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(field) for field in fields[11:15]) * 1_000_000 // TICKS


def backend(postgres):
    """The process of Postgres that sends the log."""
    said = postgres.psql("SELECT active_pid FROM pg_replication_slots WHERE active").stdout.strip()
    return int(said) if said else None


__all__ = ["Connector", "Postgres", "Service", "backend", "cpu_us", "descendant", "get", "wait_for"]
