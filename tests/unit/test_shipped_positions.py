"""Positions of a shipper that another writer of the ledger has made up: an error of ours, and not a crash."""

import json

import pytest

from playhead.kafka.write.row_shipping import Shipped
from playhead.ledger import LedgerUnreadable

GOOD = {"version": 1, "sequence": 3, "position": 70, "path": "/log/a.csv", "tail": "ab"}


def test_a_position_is_read_as_it_was_written() -> None:
    shipped = Shipped(3, 70, "/log/a.csv", "ab")
    assert Shipped.from_json("here", shipped.as_json()) == shipped
    assert json.loads(shipped.as_json()) == GOOD


@pytest.mark.parametrize("name", ["sequence", "position"])
@pytest.mark.parametrize("number", ["-5", "1e999", "NaN", str(10**30), "9" * 5_000, "[]", "null"])
def test_a_number_that_no_log_can_have_is_refused(name: str, number: str) -> None:
    text = json.dumps(GOOD).replace(f'"{name}": {GOOD[name]}', f'"{name}": {number}')
    with pytest.raises(LedgerUnreadable):
        Shipped.from_json("here", text.encode())
