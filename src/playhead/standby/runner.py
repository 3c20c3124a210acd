"""One run of a standby: its turn, its plan over the span, its proof, and its place in the history."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex

from playhead.config.saved_servers import configuration_of
from playhead.errors import Refused
from playhead.host import file_lock, paths
from playhead.host.faults import abort_point
from playhead.plan import Plan
from playhead.proof import Proof
from playhead.replay import api
from playhead.replay.api import Planned
from playhead.replay.engine import EngineUse
from playhead.replay.journal import JournalEntry
from playhead.replay.pipelines import Pipelines
from playhead.request import Request
from playhead.secrets import redact
from playhead.span import Span
from playhead.standby.history import History
from playhead.standby.store import SavedStandby, Standbys


class StandbyBusy(Refused):
    """Another run of the standby is active."""

    def __init__(self, name: str, *, by: str) -> None:
        self.name, self.by = name, by
        super().__init__(
            f"standby {name} is running already ({by}), and it runs once at a time",
            hint=f"wait for its end with `standby run --wait`; `playhead standby history {name}` shows its runs",
        )


class OtherServers(Refused):
    """The standby's settings lead to other servers than those it was made for."""

    def __init__(self, name: str, what: str, *, made_for: str, found: str) -> None:
        self.name, self.what, self.made_for, self.found = name, what, made_for, found
        super().__init__(
            f"standby {name} was made for the {what} {made_for}; its settings lead to {found} now",
            hint="check the environment and the context; to use the new servers, add the "
            "standby again with --replace",
        )


class NotItsRun(Refused):
    """The run to resume was not started by this standby."""

    def __init__(self, replay_id: str, whose: str) -> None:
        super().__init__(
            f"replay {replay_id} was not started by {whose}",
            hint=f"`playhead runs {replay_id}` shows what it is",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHooks:
    """What the trigger of a run supplies: how to run it, the consent, and how long to wait."""

    play: Callable[[Planned], Proof] = Planned.run
    keep_waiting: Callable[[], bool] = lambda: False
    """Called regularly while another run of the standby is active."""
    warm: bool = False
    """Start the engine while the run is planned, because no one will refuse it."""


def new_id(name: str) -> str:
    """Return an id for a new run, for the target's ledger and the consumer group."""
    return f"{name}-{token_hex(4)}"


def zone_of(standby: SavedStandby) -> str:
    """Return the zone of times that have none."""
    return configuration_of(standby.servers).get("timezone") or "UTC"


def plan(
    standby: SavedStandby, span: Span | str, *, replay_id: str | None = None, warm: bool = False
) -> Planned:
    """Return the plan of a run over this span; write nothing."""
    configuration = configuration_of(standby.servers)
    if isinstance(span, str):
        span = Span.parse(span, timezone=zone_of(standby))
    request = replace(standby.request, span=str(span))
    replay_id, share = replay_id or new_id(standby.name), _share(request)
    planned = api.plan(request, configuration, replay_id=replay_id, use=EngineUse(share, warm))
    _need_same_servers(standby, planned.plan)
    return planned


def run(
    name: str,
    span: Span | str,
    *,
    trigger: str = "python",
    replay_id: str | None = None,
    face: RunHooks | None = None,
) -> Proof:
    """Run a standby over a span, with its own id and consumer group; all triggers use this call.

    With the id of an unfinished earlier run, that run is resumed: its plan counts, not the span.
    """
    face, replay_id = face or RunHooks(), replay_id or new_id(name)
    history = History()
    if history.get(replay_id) is None:
        Standbys().get(name)  # Refuse it before waiting.
    with held(name, keep_waiting=face.keep_waiting):
        earlier = _earlier(history, name, replay_id)
        history.note_trigger(replay_id, name, trigger, str(span))
        abort_point("standby.triggered")
        try:
            planned = (
                plan(Standbys().get(name), span, replay_id=replay_id, warm=face.warm)
                if earlier is None
                else _again(earlier)
            )
            abort_point("standby.planned")
            return face.play(planned)
        except BaseException as exc:
            history.note_error(replay_id, redact(str(exc)) or type(exc).__name__)
            raise


def held(
    name: str, *, keep_waiting: Callable[[], bool] = lambda: False
) -> AbstractContextManager[None]:
    """Hold the standby's lock: one run at a time on this machine."""
    return file_lock.held(
        _lock_file(name), lambda by: StandbyBusy(name, by=by), keep_waiting=keep_waiting
    )


def held_for(replay_id: str) -> AbstractContextManager[None]:
    """Hold the lock of the standby that started this run, to resume it; other runs need none."""
    triggered = History().trigger_of(replay_id)
    return held(triggered.standby) if triggered is not None else nullcontext()


def is_held(name: str) -> bool:
    """Return whether a run of it is active on this machine."""
    return file_lock.is_held(_lock_file(name))


def _lock_file(name: str) -> Path:
    return paths.state_dir() / "standby" / f"{name}.lock"


def _earlier(history: History, name: str, replay_id: str) -> JournalEntry | None:
    """Return the run to resume, if it already has a plan."""
    found = history.get(replay_id)
    if found is None:
        return None
    triggered = history.trigger_of(replay_id)
    if triggered is None or triggered.standby != name:
        raise NotItsRun(replay_id, f"standby {name}")
    return found


def _again(earlier: JournalEntry) -> Planned:
    share = _share(earlier.plan.request)
    return api.planned(earlier.plan, configuration_of(earlier.servers), share=share)


def _share(request: Request) -> float | None:
    return Pipelines().share_beside(str(request.target_endpoint))


def _need_same_servers(standby: SavedStandby, found: Plan) -> None:
    for what, made_for, now in (
        ("source", standby.source_identity, found.source.identity),
        ("target", standby.target_identity, found.target.identity),
    ):
        if made_for is not None and made_for != now:
            raise OtherServers(standby.name, what, made_for=made_for, found=now)
