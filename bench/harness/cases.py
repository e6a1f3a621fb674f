"""The cases: the same work for all."""

from dataclasses import dataclass

WORK_US = 5000
SLOW_RATE = 4
SLOW_MIN_US = 250_000
SLOW_MAX_US = 1_250_000
SEED = 1
QUICK_SHARE = 5

# A run at half of a load takes so long.
HALF_SECONDS = 10
HALF_SECONDS_QUICK = 4


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    keys: int = 1
    work_min_us: int = 0
    work_max_us: int = 0
    rate: int = 0
    strict: bool = True
    # What each gets is its own number, so that each takes some seconds.
    messages: int | None = None
    messages_quick: int | None = None
    # It runs the rate that was measured in that case, halved.
    half_of: str | None = None
    # It takes minutes and says the same each time.
    once: bool = False

    def count(self, own, quick):
        """How many messages, of which a contestant has `own` for a long run."""
        if self.messages is not None:
            return self.messages_quick if quick else self.messages
        return own // QUICK_SHARE if quick else own


NOTHING = Case("nothing", "Work that does nothing, produced and consumed at once", strict=False)
WORK_1 = Case(
    "work-1",
    "5 ms of waiting work a message, strict order, one key",
    work_min_us=WORK_US,
    work_max_us=WORK_US,
)
WORK_100 = Case(
    "work-100",
    "5 ms of waiting work a message, strict order per key, 100 keys",
    keys=100,
    work_min_us=WORK_US,
    work_max_us=WORK_US,
)
HALF_100 = Case(
    "half-100",
    "The same at half of that load",
    keys=100,
    work_min_us=WORK_US,
    work_max_us=WORK_US,
    half_of="work-100",
)
SLOW = Case(
    "slow",
    "A message each 250 ms, 250 to 1250 ms of work, strict order",
    work_min_us=SLOW_MIN_US,
    work_max_us=SLOW_MAX_US,
    rate=SLOW_RATE,
    messages=240,
    messages_quick=40,
    once=True,
)
SLOW_4 = Case(
    "slow-4",
    "The same, four at a time, with nothing that brings them in order",
    work_min_us=SLOW_MIN_US,
    work_max_us=SLOW_MAX_US,
    rate=SLOW_RATE,
    strict=False,
    messages=240,
    messages_quick=40,
    once=True,
)
# Many quiet keys: the same absolute rate for all, so that what a message costs can be compared.
SPARSE_SECONDS = 10
SPARSE_SECONDS_QUICK = 2


def sparse(name, keys, rate):
    return Case(
        name,
        f"{keys:,} keys that get their messages one at a time, {rate:,} a second in all, 5 ms of work",
        keys=keys,
        work_min_us=WORK_US,
        work_max_us=WORK_US,
        rate=rate,
        messages=rate * SPARSE_SECONDS,
        messages_quick=rate * SPARSE_SECONDS_QUICK,
    )


SPARSE_1000 = sparse("sparse-1000", 1000, 2000)
SPARSE_1000_FAST = sparse("sparse-1000-fast", 1000, 4000)
SPARSE_100 = sparse("sparse-100", 100, 4000)


def long_work(work_ms, keys):
    """As the tables of libraries for Kafka that work in parallel within a key's order."""
    return Case(
        f"long-{work_ms}" if keys > 1 else f"long-{work_ms}-1",
        f"{work_ms} ms of waiting work a message, strict order per key, {keys:,} key{'s'[: keys > 1]}",
        keys=keys,
        work_min_us=work_ms * 1000,
        work_max_us=work_ms * 1000,
    )


LONG = [long_work(10, 1000), long_work(50, 1000), long_work(100, 1000), long_work(100, 1)]
CASES = [NOTHING, SPARSE_1000, SPARSE_1000_FAST, SPARSE_100, WORK_1, WORK_100, HALF_100, *LONG, SLOW, SLOW_4]
