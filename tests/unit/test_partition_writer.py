"""A partition's writer in a topic, and what its ledger has already."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from playhead.account import Account, ErrorRule
from playhead.kafka.write.partition_writer import PartitionWriter
from playhead.record import Slice
from playhead.target import OutOfOrder


@pytest.mark.parametrize("spans", [[(0, 100)], [(0, 100), (50, 60)]])
def test_nothing_is_written_behind_a_hole(spans: list[tuple[int, int]]) -> None:
    """Entries of an older version may overlap: the last one is not always the one that reaches furthest."""
    committed = [Slice("t", 0, *span) for span in spans]
    writer = cast(Any, SimpleNamespace(committed=committed, may_overlap=False, replay_id="r"))
    account = Account(Slice("t", 0, 100, 110), ErrorRule("fail"))
    account.follows = 100
    PartitionWriter._refuse_gap(writer, account)
    account.follows = 101
    with pytest.raises(OutOfOrder):
        PartitionWriter._refuse_gap(writer, account)
