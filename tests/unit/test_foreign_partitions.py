"""A partition on another server commits before its table's server and on its own: nothing there is exactly once."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from playhead.postgres import inspect, storage
from playhead.postgres.answers import rows_of
from playhead.postgres.session import TableName
from playhead.postgres.table import Table
from tests.unit.replaying import TOPIC, entry

PLACE = TableName("public", "cars")


def table(kind: str) -> Table:
    flags = (False,) * 5
    return Table(PLACE, 7, kind, "p", *flags, columns=(), keys=())


class Catalog:
    """Knows of two partitions on other servers."""

    def run(self, statement: str, _parameters: Any = ()) -> list[tuple[Any, ...]]:
        return [("first",), ("second",)] if "relkind = 'f'" in statement else []

    def rows(
        self, statement: str, _parameters: Any = (), *, kinds: Sequence[Any]
    ) -> Sequence[tuple[Any, ...]]:
        return rows_of(self.run(statement), kinds)


@pytest.mark.parametrize(("kind", "count"), [("p", 1), ("r", 0)])
def test_a_plan_and_a_proof_name_partitions_on_other_servers(monkeypatch, kind, count):
    session: Any = Catalog()
    notes = list(inspect._notes_of_foreign(session, table(kind)))
    assert [each.code for each in notes] == ["target-foreign-partition"] * count
    monkeypatch.setattr(storage, "read_table", lambda *_: table(kind))
    monkeypatch.setattr(storage, "place_of", lambda *_: PLACE)
    rules: Any = SimpleNamespace(lacking=lambda _: [])
    entries = [entry(0, 5)]
    found = storage.written_rows(session, "cars", entries, lambda _: rules, lambda _: rules)
    assert [entries[0].slice.topic, len(found.doubtful), found.lost] == [TOPIC, count, []]
    told = [*(each.text for each in notes), *found.doubtful]
    assert all(
        each.startswith(
            "first, second of public.cars is on another server, which commits on its own: "
        )
        for each in told
    )
