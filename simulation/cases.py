"""What one schedule is about: a log, a request, and what goes wrong; all of it drawn."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from simulation.choices import Choices
from simulation.kafka_clients import Weather
from simulation.kafka_cluster import ABORT, COMMIT, Cluster, Place, Stored

SOURCE, TARGET, LETTERS, TABLE = "src", "dst", "letters", "rows"
ARCHIVE = "/archive"
LARGEST = 5_000
"""Bytes of a record; a larger one is not read, and nothing of it is in its dead letter."""
UPSETS = ("source made again", "target made again", "another target", "ledger expires")
LIVE_UPSETS = ("source made again", "source made again", "source expires")
BASE_MS = 1_767_200_000_000
_STEP_MS = 60_000
_MOST_STEPS = 9
_WILD_MS = (-3_600_000, -600_001, -1, 1, 59_999, 600_001, 3_000_000, 86_400_000)
_JUMP_AT_S = (0.01, 0.03, 0.1, 1.0, 10.0)
_JUMP_BY_S = (2, -2, 90, -90, 7_200, -7_200, 1 << 30, -(1 << 29))
_RATES = (0, 0, 0, 60, 12, 4)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How finely work is cut."""

    records: int
    split: int
    slots: int


@dataclass(slots=True)
class Faults:
    """How often what goes wrong outside of Kafka's own clients: one in so many times."""

    switches: int = 0
    kills: int = 0
    zombies: int = 0
    lost_connection: int = 0
    ghosts: int = 0


@dataclass(slots=True)
class Case:
    """One schedule's subject."""

    request: dict[str, Any]
    sizes: Sizes
    weather: Weather
    faults: Faults
    partitions: int
    span_ms: tuple[int | None, int | None] = (None, None)
    other_machine: bool = False
    two_at_once: bool = False
    guard: str | None = None
    """A switch of the context that forbids the run."""
    orphans: frozenset[int] = frozenset()
    """Ids whose rows another table does not want; that is said when they are committed, and not before."""
    jumps: tuple[tuple[float, int], ...] = ()
    """When somebody sets the clock on the wall, in seconds from the start, and by how many."""
    power_fails: bool = False
    """Whether the machine of the archive loses its power during the first run."""
    generation: int = 0
    """How often the source was made again; its records say so."""
    pipeline: "Pipeline | None" = None
    """How it is live; None where it is a replay."""
    upset: str | None = None
    """What somebody does between two runs that no replay can go on behind."""

    @property
    def is_table(self) -> bool:
        return str(self.request["target"]).startswith("postgres:")

    @property
    def is_archive(self) -> bool:
        return str(self.request["target"]).startswith(("json:", "csv:"))

    @property
    def rule(self) -> str | None:
        return self.request.get("on_conflict")

    @property
    def tombstones(self) -> str | None:
        return self.request.get("tombstones")

    @property
    def on_error(self) -> str:
        return str(self.request.get("on_error", "fail"))

    def told(self) -> str:
        """For people."""
        wrong = vars(self.weather) | {
            name: getattr(self.faults, name) for name in Faults.__dataclass_fields__
        }
        often = {name: one_in for name, one_in in wrong.items() if one_in}
        odd = f"upset: {self.upset}, clock: {self.jumps}, guard: {self.guard}"
        return f"{self.request} {self.sizes}, {odd}, one in so many: {often}"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What is asked of a live pipeline beside its request."""

    start: str
    most_at_once: int
    """Records of a partition that a round takes at most."""
    worth_several: int
    is_cluster: bool
    growth: int
    """Steps by which the log grows while it runs."""


def draw(
    choices: Choices, cluster: Cluster, without: Collection[str] = (), *, is_live: bool = False
) -> Case:
    """A case, with its log in the cluster; what it is to be without is drawn, and does not happen."""
    partitions = 1 + choices.below(3)
    request = _request(choices, 4 if is_live else 7)
    sizes = Sizes(1 + choices.below(6), 1 + choices.below(8), 1 + choices.below(4))
    case = Case(request, sizes, _weather(choices), _faults(choices), partitions)
    for name in without:
        for faults in (case.weather, case.faults):
            if hasattr(faults, name):
                setattr(faults, name, 0)
    case.other_machine = choices.below(4) == 1
    case.two_at_once = choices.below(6) == 1
    if is_live:
        case.pipeline = _pipeline(choices)
    if choices.below(24) == 1:
        case.guard = choices.pick(("read_only", "production"))
    if choices.below(2 if is_live else 4) == 1:
        kinds = UPSETS[:1] if case.is_archive else LIVE_UPSETS if is_live else UPSETS
        case.upset = choices.pick(kinds)
    if choices.below(8) == 1:
        case.jumps = tuple(
            (choices.pick(_JUMP_AT_S), choices.pick(_JUMP_BY_S))
            for _ in range(1 + choices.below(2))
        )
    if case.is_archive and choices.below(3) == 1:
        case.power_fails = True
    if case.is_table and case.rule is None and case.on_error != "fail":
        case.orphans = choices.pick((frozenset(), frozenset({1}), frozenset({0, 101})))
    cluster.create(SOURCE, partitions)
    wild = choices.below(3) == 1 and "wild" not in without
    for number in range(partitions):
        _fill(choices, cluster, number, case, wild)
    if not is_live:
        _draw_span(choices, case)
    return case


def _pipeline(choices: Choices) -> Pipeline:
    return Pipeline(
        choices.pick(("earliest", "earliest", "latest")),
        1 + choices.below(8),
        1 + choices.below(12),
        is_cluster=choices.below(3) == 1,
        growth=choices.below(6),
    )


def _request(choices: Choices, kinds: int) -> dict[str, Any]:
    kind = choices.below(kinds)
    if kind == 4:
        return {"source": f"kafka:{SOURCE}", "target": choices.pick(("json:", "csv:")) + ARCHIVE}
    if kind % 2 == 0:
        request: dict[str, Any] = {"source": f"kafka:{SOURCE}", "target": f"kafka:{TARGET}"}
        if choices.below(4) == 1:
            request["partition"] = "key"
        return request
    request = {"source": f"kafka:{SOURCE}", "target": f"postgres:{TABLE}"}
    rule = choices.pick([None, "update", "ignore", "newer", "error", "newer"])
    if rule is not None:
        request |= {"on_conflict": rule, "key": ("id",)}
    tombstones = choices.pick(["skip", None, "delete"])
    if tombstones is not None and (tombstones != "delete" or rule not in (None, "error")):
        request["tombstones"] = tombstones
    if choices.below(3) > 0 or "tombstones" not in request:
        request["on_error"] = choices.pick(["skip", f"dlq:{LETTERS}"])
    return request


def _weather(choices: Choices) -> Weather:
    if choices.below(4) == 0:
        return Weather()
    names = Weather.__dataclass_fields__
    return Weather(**{name: choices.pick(_RATES) for name in names})


def _faults(choices: Choices) -> Faults:
    return Faults(
        switches=choices.pick((4, 2, 10)),
        kills=choices.pick((0, 0, 300, 80, 25)),
        zombies=choices.pick((0, 0, 6, 2)),
        lost_connection=choices.pick((0, 0, 60, 15)),
        ghosts=choices.pick((0, 3)),
    )


def _fill(choices: Choices, cluster: Cluster, number: int, case: Case, wild: bool) -> None:
    """Records alone, and in transactions that were committed or aborted."""
    place = (SOURCE, number)
    for _ in range(_MOST_STEPS):
        if choices.below(5) == 0:
            return
        step(choices, cluster, place, case, wild)


def step(
    choices: Choices,
    cluster: Cluster,
    place: Place,
    case: Case,
    wild: bool,
    pause: Callable[[], None] = lambda: None,
) -> None:
    """A few records more, alone, or in a transaction that is open for a while."""
    kind = choices.pick(["plain", "plain", COMMIT, ABORT])
    count = 1 + choices.below(3)
    log, transaction = cluster.log(place), None
    for _ in range(count):
        if log is None or cluster.log(place) is not log:
            break  # the topic was deleted meanwhile
        entry = _record(choices, case, (place[1], log.end), wild)
        if kind != "plain" and transaction is None:
            epoch = cluster.begin_producer("theirs", 0)
            transaction = cluster.transaction_of("theirs", epoch, 0, 1 << 62)
        cluster.write(transaction, place, entry)
        pause()
    if transaction is not None and transaction.decided is None:
        cluster.decide(transaction, kind)
        ended_ms = BASE_MS + (log.end if log else 0) * _STEP_MS
        cluster.complete(transaction, ended_ms * 1_000_000)


def _record(choices: Choices, case: Case, place: tuple[int, int], wild: bool) -> Stored:
    number, offset = place
    # Under `newer` records of several partitions may have one key, and one time.
    is_newer = case.rule == "newer"
    timestamp_ms = BASE_MS + (offset // 2 if is_newer else offset) * _STEP_MS
    if wild and choices.below(4) == 1:
        timestamp_ms += choices.pick(_WILD_MS)
    record_id = (0 if is_newer else number * 100) + choices.below(4)
    key = str(record_id).encode()
    text = f"{number}-{offset}{'g' * case.generation}"
    value: bytes | None = f'{{"id": {record_id}, "v": "{text}"}}'.encode()
    odd = choices.below(8)
    if odd == 1:
        value = None
    elif odd == 2 and case.on_error != "fail":
        value = choices.pick([b"no json", b'{"id": "x", "v": "y"}', b"[1]"])
    elif odd == 3 and offset % 4 == 0 and case.on_error != "fail" and case.pipeline is None:
        # Spark's reader, which a pipeline has, knows no limit.
        value = value[:-1] + b', "pad": "' + b"x" * LARGEST + b'"}'
    return Stored(0, "record", timestamp_ms, key, value)


def fill_again(choices: Choices, cluster: Cluster, case: Case) -> None:
    """Other records in a source topic that was deleted and made again."""
    if SOURCE in cluster.topics:
        cluster.delete(SOURCE)
    case.generation += 1
    cluster.create(SOURCE, case.partitions)
    for number in range(case.partitions):
        _fill(choices, cluster, number, case, wild=False)


def _draw_span(choices: Choices, case: Case) -> None:
    kind = choices.below(3)
    if kind == 0:
        return
    start = BASE_MS + choices.below(10) * _STEP_MS
    end = start + (1 + choices.below(12)) * _STEP_MS
    case.span_ms = (start if kind == 1 else None, end)
    first = "start" if case.span_ms[0] is None else str(start)
    case.request["span"] = f"{first}..{end}"
    case.request["lateness_ms"] = choices.pick([600_000, 0, 60_000])
