"""The options of a live pipeline beside its request: name, start, trigger, group."""

import re
from dataclasses import dataclass

from playhead.endpoint import Endpoint, system_of
from playhead.errors import BadValue, Refused, UsageError
from playhead.grammar.duration import parse_duration_ms, show_duration_ms
from playhead.request import Request
from playhead.span import Span

AVAILABLE_NOW = "available-now"
LATEST, EARLIEST, GROUP = "latest", "earliest", "group:"
_SYNONYMS = {"end": LATEST, "now": LATEST, "start": EARLIEST}
_LEAST_TRIGGER_MS, _MOST_TRIGGER_MS = 10, 3_600_000
# The name becomes a part of file names, transactional ids and a group's name.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,54}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSpec:
    """The description of a pipeline."""

    name: str
    request: Request
    group: str
    start: str = LATEST
    """`latest`, `earliest`, `group:NAME`, or a time; used where the ledger has no entry yet."""
    trigger_ms: int | None = 200
    """None to end when everything available is read."""
    drop_when_down: bool = False
    accept_loss: bool = False

    def __post_init__(self) -> None:
        from_, to = self.request.source_endpoint, self.request.target_endpoint
        if not system_of(from_).is_live_source:
            raise Refused(
                f"a live pipeline reads topics, and {from_.shown()} is not one",
                hint="use `playhead replay` for archives",
            )
        if not system_of(to).is_live_target:
            raise Refused(
                "a live pipeline commits several times a second and writes only to "
                f"PostgreSQL or Kafka, not to {to.shown()}",
                hint="write the records that have arrived with `playhead replay … --last 1h`",
            )

    @property
    def trigger(self) -> str:
        return AVAILABLE_NOW if self.trigger_ms is None else show_duration_ms(self.trigger_ms)


def name_for(name: str | None, target: Endpoint) -> str:
    """Return the given name, or one made from the target."""
    if name is None:
        return _NOT_IN_NAMES.sub("-", target.name).strip("-._")[:54] or "pipeline"
    if not _NAME.fullmatch(name):
        raise BadValue(
            "--name",
            found=name,
            needed="letters, digits, '.', '_' and '-', at most 55",
        )
    return name


def group_for(group: str | None, name: str) -> str:
    """Return the group whose offsets show the pipeline's progress."""
    if group is not None and not group.strip():
        raise BadValue("--group", found=group, needed="a group's name")
    return group or f"playhead.live.{name}"


def trigger_of(text: str) -> int | None:
    """Return the milliseconds between two rounds; None for `available-now`."""
    if text == AVAILABLE_NOW:
        return None
    found = parse_duration_ms(text, where="--trigger")
    if not _LEAST_TRIGGER_MS <= found <= _MOST_TRIGGER_MS:
        raise BadValue(
            "--trigger",
            found=text,
            needed=f"10ms to 1h, or {AVAILABLE_NOW}",
        )
    return found


def start_of(text: str, group: str) -> str:
    """Return the start in canonical form; refuse the pipeline's own group, which only follows it."""
    word = _SYNONYMS.get(text, text)
    if word == GROUP:
        raise UsageError("--from group: names no group", hint="--from group:NAME")
    if word == GROUP + group:
        raise UsageError(
            f"--from {text} names the pipeline's own group, which only shows its progress",
            hint="leave --from out: the pipeline continues from its ledger",
        )
    if word not in (LATEST, EARLIEST) and not word.startswith(GROUP):
        Span.of(word)  # Refuses now what would fail at the start.
    return word
