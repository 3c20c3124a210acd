"""Gets the query plans of the slowest queries, from the target and from the server of --beside.

Without --literals, the query is planned with parameters in place of its values, because a query plan contains
the values of its conditions.
"""

from typing import Any, Final

from playhead.errors import PlayheadError
from playhead.queries.replay import QueryOutcome
from playhead.queries.report import slower
from playhead.queries.sending import encoded
from playhead.queries.tape import Step, Tape, step_of
from playhead.querylog.sql import normalized, understand
from playhead.querylog.statement import Act
from playhead.server import Explainer, NotExplained, Server

_PLAIN: Final = frozenset(("SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt"))
_NOT_PLAIN: Final = "not explained: the text is not a single SELECT, INSERT, UPDATE or DELETE"
_TOO_OLD: Final = (
    "not explained: before version 16, a query plan contains values; add --literals to allow it"
)


def plans_of(
    outcome: QueryOutcome, server: Server, beside: Server | None, *, has_literals: bool = False
) -> list[dict[str, Any]]:
    """Return, for each of the slowest queries, its query plan on each server, or the reason why there is none."""
    rows = slower(outcome)
    servers = {"target": server} | ({"beside": beside} if beside else {})
    found = [{"query": row["query"], "slower": row["slower"]} for row in rows]
    if not found:
        return []
    tape = outcome.workload.tape
    steps = _examples(tape, [str(row["query"]) for row in rows])
    for name, each_server in servers.items():
        try:
            with each_server.explainer() as explainer:
                plans = [_plan(explainer, step, has_literals=has_literals) for step in steps]
        except PlayheadError as exc:
            plans = [f"not explained: {exc}"] * len(steps)
        for each, plan in zip(found, plans, strict=True):
            each[name] = plan
    return found


def _examples(tape: Tape, queries: list[str]) -> list[Step]:
    """Return the first statement of each of these queries."""
    return [step_of(tape.examples[tape.queries.index(query)]) for query in queries]


def _plan(explainer: Explainer, step: Step, *, has_literals: bool) -> str:
    kinds = understand(step.sql).kinds
    if len(kinds) != 1 or kinds[0] not in _PLAIN:
        return _NOT_PLAIN
    try:
        if has_literals:
            given = step.parameters if step.act is Act.EXECUTE else None
            values = [None if each is None else encoded(each) for each in given or ()]
            return explainer.plan(encoded(step.sql), values)
        if not explainer.knows_generic:
            return _TOO_OLD
        return explainer.plan(encoded(normalized(step.sql)), None)
    except NotExplained as exc:
        return f"not explained: {exc}"
