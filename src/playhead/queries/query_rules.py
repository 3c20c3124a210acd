"""The rules of a query replay: which statements are played, and in which order."""

from dataclasses import asdict, dataclass, replace
from typing import Final

from playhead.errors import UsageError
from playhead.plan import Plan
from playhead.queries.gate import ORDERS, Order
from playhead.replay.api import QUERIES
from playhead.terms import Terms

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


def terms_of(plan: Plan, rules: QueryRules) -> Terms:
    """Return the terms of the ledger, which include the rules, because other rules play other statements."""
    terms = plan.terms()
    played = {name: value for name, value in asdict(rules).items() if name in _PLAYED_BY}
    return replace(terms, rules={**terms.rules, **played})
