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
CASES = [NOTHING, WORK_1, WORK_100, HALF_100, SLOW, SLOW_4]
