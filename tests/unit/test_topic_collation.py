"""Rows of a topic are found by its very name, also if the collation of their column takes others for equal."""

from typing import Any

import pytest

from playhead.postgres.offsets_held import _Asked
from playhead.postgres.session import TableName
from playhead.postgres.table import Column, Table
from playhead.record import Slice


def _column(name: str, base: str, collation: str = "") -> Column:
    return Column(
        name, base, base, "b", "", -1, False, "", "", base, None, collation=collation
    )  # fmt: skip


@pytest.mark.parametrize(
    ("collation", "is_exact"),
    [("", False), ('pg_catalog."C"', False), ("public.caseless", True)],
)
def test_a_name_that_a_collation_takes_for_equal_is_another_topic(
    collation: str, is_exact: bool
) -> None:
    columns = (
        _column("_topic", "text", collation),
        _column("_partition", "int4"),
        _column("_offset", "int8"),
    )
    flags = (False,) * 5
    table = Table(TableName("s", "t"), 1, "r", "p", *flags, columns, ())
    session: Any = None
    asked = _Asked(session, table, "orders")._statement([Slice("orders", 0, 0, 9)])
    assert "\"_topic\"::text = 'orders' AND" in asked, "by this an index is used"
    assert ('"_topic"::text = \'orders\' COLLATE "C"' in asked) is is_exact
