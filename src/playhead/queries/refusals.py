"""The refusals of a query replay: targets that would give wrong results, and unknown earlier progress."""

from pathlib import Path
from typing import Any, Final

from playhead.errors import Refused, UsageError
from playhead.plan import Plan
from playhead.queries.query_rules import QueryRules
from playhead.queries.workload import Workload
from playhead.querylog.located import PLACE_HEADER
from playhead.request import Request
from playhead.server import ServerFacts

BESIDE_IDENTITY: Final = "beside"
"""Key in a plan for the identity of the server of --beside."""


class SameServer(Refused):
    """The target is the server that wrote the log."""

    def __init__(self, file: str) -> None:
        self.file = file
        super().__init__(
            f"the target is the server that wrote the log: its log folder contains {file}",
            hint="play on a copy that was restored from a backup taken before the log",
        )


class NoOrder(Refused):
    """The order between the rows of several partitions is unknown."""

    def __init__(self, partitions: int) -> None:
        super().__init__(
            f"the log has {partitions} partitions and rows without the header {PLACE_HEADER}, so the order between "
            "the partitions is unknown",
            hint="ship the log with `playhead queries ship`, or give --order session, or --offsets of one partition",
        )


class LedgerGone(Refused):
    """A replay was started, and its target has no ledger or marks of it."""

    def __init__(self, replay_id: str) -> None:
        super().__init__(
            f"replay {replay_id} was started, and the target has no ledger or no marks of it, so it is unknown "
            "which statements were played",
            hint="if the target was restored to its state before the replay, use another --id",
        )


def refuse_several_runs(partitions: Any) -> None:
    places = [each.place for each in partitions]
    if len(set(places)) < len(places):
        raise UsageError(
            "--offsets names several runs of one partition", hint="replay them one after the other"
        )


def refuse_no_order(workload: Workload, rules: QueryRules) -> None:
    if rules.order != "session" and not workload.log.has_order:
        raise NoOrder(len(workload.log.parts))


def refuse_several_databases(workload: Workload) -> None:
    names = sorted(workload.tape.databases - {""})
    if len(names) > 1:
        raise UsageError(
            f"the log has statements of several databases: {', '.join(names)}",
            hint=f"choose one, such as --databases {names[0]}; it is played in the database of --to",
        )


def refuse_source(request: Request, server: ServerFacts) -> None:
    """Refuse to play a log on the server that wrote it, as far as this can be detected.

    A log does not contain the system identifier, and a restored copy has the same one. But a server reports the
    folder of its logs.
    """
    name = request.source_endpoint.name
    if request.source_endpoint.system != "kafka" and server.log_folder:
        folder = Path(server.log_folder)
        if folder.exists() and folder.resolve() in (
            Path(name).resolve(),
            *Path(name).resolve().parents,
        ):
            raise SameServer(name)


def identity(facts: ServerFacts) -> str:
    return f"{facts.identifier}/{facts.database}"


def refuse_other(plan: Plan, facts: ServerFacts, *, is_beside: bool) -> None:
    planned = plan.target.needs[BESIDE_IDENTITY] if is_beside else plan.target.identity
    found, option = identity(facts), "--beside" if is_beside else "--to"
    if planned != found:
        raise Refused(
            f"replay {plan.replay_id} was planned for the server and database {planned}, and {option} is {found}",
            hint="make a new plan with another --id",
        )
