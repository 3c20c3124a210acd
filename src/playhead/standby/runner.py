"""One triggered run of a standby: its turn, its plan over the span, its proof, and its place in the history."""

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
from playhead.replay.journal import JournalEntry
from playhead.replay.pipelines import Pipelines
from playhead.request import Request
from playhead.secrets import redact
from playhead.span import Span
from playhead.standby.history import History
from playhead.standby.store import SavedStandby, Standbys


class StandbyBusy(Refused):
    """Another run of the standby goes on; they come one after the other."""

    def __init__(self, name: str, *, by: str) -> None:
        self.name, self.by = name, by
        super().__init__(
            f"standby {name} is running already ({by}), and it runs once at a time",
            hint=f"wait for its end, as `standby run --wait` does; `playhead standby history {name}` "
            "shows its runs",
        )


class OtherServers(Refused):
    """The servers that a standby would reach are not those it was made for."""

    def __init__(self, name: str, what: str, *, made_for: str, found: str) -> None:
        self.name, self.what, self.made_for, self.found = name, what, made_for, found
        super().__init__(
            f"standby {name} was made for the {what} {made_for}; its settings lead to {found} now",
            hint="look at the environment and the context; if it is meant, add it again with --replace",
        )


class NotItsRun(Refused):
    """A run that is to go on belongs to somebody else."""

    def __init__(self, replay_id: str, whose: str) -> None:
        super().__init__(
            f"replay {replay_id} is no run of {whose}",
            hint=f"`playhead runs {replay_id}` shows what it is",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHooks:
    """What whoever triggers a run adds to it: how it is run and agreed to, and how long it waits."""

    play: Callable[[Planned], Proof] = Planned.run
    keep_waiting: Callable[[], bool] = lambda: False
    """Asked now and then while another run of the standby goes on."""
    warm: bool = False
    """Start the engine while the run is planned, because nobody will say no."""


def new_id(name: str) -> str:
    """An id of a run's own, by which it is known in the target's ledger and its group in the cluster."""
    return f"{name}-{token_hex(4)}"


def zone_of(standby: SavedStandby) -> str:
    """The zone of times that name none."""
    return configuration_of(standby.servers).get("timezone") or "UTC"


def plan(
    standby: SavedStandby, span: Span | str, *, replay_id: str | None = None, warm: bool = False
) -> Planned:
    """What a run over this span would do; writes nothing."""
    configuration = configuration_of(standby.servers)
    if isinstance(span, str):
        span = Span.parse(span, timezone=zone_of(standby))
    request = replace(standby.request, span=str(span))
    replay_id, share = replay_id or new_id(standby.name), _share(request)
    planned = api.plan(request, configuration, replay_id=replay_id, share=share, warm=warm)
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
    """Run a standby over a span, with an id and a group of its own; the one call of all triggers.

    With the id of an earlier run of it that did not come to its end, that one goes on: its plan counts,
    and not the span.
    """
    face, replay_id = face or RunHooks(), replay_id or new_id(name)
    history = History()
    if history.get(replay_id) is None:
        Standbys().get(name)  # refused before anybody waits
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
    """The standby's turn: one run at a time on this machine."""
    return file_lock.held(
        _lock_file(name), lambda by: StandbyBusy(name, by=by), keep_waiting=keep_waiting
    )


def held_for(replay_id: str) -> AbstractContextManager[None]:
    """The turn of the standby whose run this is, for whoever goes on with it; nothing for other runs."""
    triggered = History().trigger_of(replay_id)
    return held(triggered.standby) if triggered is not None else nullcontext()


def is_held(name: str) -> bool:
    """Whether a run of it goes on on this machine."""
    return file_lock.is_held(_lock_file(name))


def _lock_file(name: str) -> Path:
    return paths.state_dir() / "standby" / f"{name}.lock"


def _earlier(history: History, name: str, replay_id: str) -> JournalEntry | None:
    """The run that goes on, if it has a plan already."""
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
