"""The rules of a query replay: which statements are played, and in which order."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from playhead.errors import UsageError
from playhead.plan import Plan
from playhead.queries.gate import ORDERS, Order
from playhead.replay.api import QUERIES
from playhead.replay.begun_replays import plan_of_terms
from playhead.terms import OtherTerms, Terms, differing_rules

_PLAYED_BY: Final = (
    "order", "users", "databases", "applications", "skip_selects", "tables", "queries", "marks", "allow"
)  # fmt: skip
"""The rules that decide which statements are played, and in which order."""


@dataclass(frozen=True, slots=True)
class QueryRules:
    """The rules of a query replay, as JSON values, because a plan stores them."""

    order: Order = "commit"
    users: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()
    skip_selects: bool = False
    tables: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    most_connections: int | None = None
    marks: bool = True
    idle_ms: int | None = None
    """A connection that was idle for this time outside of a transaction is closed, and reopened when needed."""
    allow: tuple[str, ...] = ()
    ignore_integrity_s: int = 0
    """Errors of integrity in the first N seconds of the log are not divergences; -1 for the whole log."""
    follow: bool = False
    """Whether the run also plays rows that are added to the log, until it is stopped."""

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise UsageError(f"--order: found {self.order!r}, needed {', '.join(ORDERS)}")

    @classmethod
    def from_plan(cls, plan: Plan) -> "QueryRules":
        saved = dict(plan.target.needs.get(QUERIES, {}))
        lists = {name: tuple(value) for name, value in saved.items() if isinstance(value, list)}
        return cls(**saved | lists)

    def said(self) -> dict[str, Any]:
        """Return the rules that differ from their defaults."""
        default = asdict(QueryRules())
        return {name: value for name, value in asdict(self).items() if value != default[name]}

    def refuse_others(self, asked: "QueryRules", replay_id: str, *, is_whole: bool) -> None:
        """Refuse a command with other rules; `is_whole` if rules that it leaves out are its defaults."""
        saved, wanted = asdict(self), asdict(asked)
        given = set(asked.said()) | (set(_PLAYED_BY) if is_whole else set())
        if others := sorted(name for name in given if saved[name] != wanted[name]):
            name = others[0]
            raise UsageError(
                f"replay {replay_id} was planned with other rules: {name} is {shown_rule(saved[name])} "
                f"in its plan, and {shown_rule(wanted[name])} in this command",
                hint=f"to continue with its plan: playhead queries replay --id {replay_id}; "
                "for other rules choose another --id",
            )


def terms_of(plan: Plan, rules: QueryRules) -> Terms:
    """Return the terms of the ledger, which include the rules, because other rules play other statements."""
    terms = plan.terms()
    played = {name: value for name, value in asdict(rules).items() if name in _PLAYED_BY}
    return replace(terms, rules={**terms.rules, **played})


def begun_elsewhere(plan: Plan, rules: QueryRules, kept: Terms) -> Plan:
    """Return the plan that another machine began, from the ledger; refuse other rules and other servers.

    Other users may have written the ledger, so the needs of the plan are those of this command.
    """
    differences = differing_rules(kept.rules, terms_of(plan, rules).rules)
    if not differences:
        begun, needs = plan_of_terms(plan.replay_id, kept), plan.target.needs
        differences = differing_rules(_decisive(begun.target.needs), _decisive(needs))
    if differences:
        raise OtherTerms(plan.replay_id, differences=differences)
    return replace(begun, target=replace(begun.target, needs=needs))


def _decisive(needs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rules that decide what is played, and the servers."""
    saved = needs.get(QUERIES)
    rules = saved if isinstance(saved, Mapping) else {}
    servers = {name: value for name, value in needs.items() if name != QUERIES}
    return {name: rules[name] for name in _PLAYED_BY if name in rules} | servers


def shown_rule(value: Any) -> str:
    """Return the value of a rule for a person."""
    return (", ".join(value) or "not given") if isinstance(value, tuple) else str(value)
