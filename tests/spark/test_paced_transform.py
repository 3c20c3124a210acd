"""Paced runs through a transform, whose lanes have a task each; and how many tasks an engine says it runs."""

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from playhead.replay.partition_work import TooFewSlots
from playhead.spark import session
from tests.fix_replay import Deck, ran

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMOTE = """
import sys
from playhead.spark import session
print(session.slots(session.session("slots", remote=sys.argv[1])))
"""


def test_lanes_of_a_transform_keep_their_pace_side_by_side(
    deck: Deck, spark: "SparkSession"
) -> None:
    lanes = min(session.slots(spark), 4)
    topic, copy = deck.laps(40, lanes), deck.topic("copy", lanes)
    planned = deck.plan(f"kafka:{topic}", f"kafka:{copy}", pace="20x", where="value:seq > 1")
    proof = ran(planned)
    told = proof.as_document()["pace"]
    assert (told["records"], told["early"]) == (38, 0)
    assert told["max_us"] < 2_000_000
    found = sorted(json.loads(each.value or b"")["seq"] for each in deck.records(copy))
    assert found == [*range(2, 40)]


def test_more_lanes_than_tasks_are_refused_before_anything_waits(
    deck: Deck, spark: "SparkSession"
) -> None:
    lanes = session.slots(spark) + 1
    topic, copy = deck.laps(2 * lanes, lanes), deck.topic("copy", lanes)
    planned = deck.plan(f"kafka:{topic}", f"kafka:{copy}", pace="20x", where="value:seq > 1")
    with pytest.raises(TooFewSlots, match=f"needs {lanes} tasks at once"):
        planned.run()


def test_a_table_is_verified_through_the_transform_that_filled_it(deck: Deck, laps: str) -> None:
    table = deck.table("seq int PRIMARY KEY, car text")
    asked = {"where": "partition < 2", "select": "value:seq AS seq, upper(value:car) AS car"}
    planned = deck.plan(f"kafka:{laps}", f"postgres:{table}", **asked)
    assert ran(planned).total("written") == 40
    assert planned.verify().agrees
    deck.sql(f"UPDATE {table} SET car = 'x' WHERE seq = 10")
    deck.sql(f"DELETE FROM {table} WHERE seq = 12")
    found = planned.verify()
    assert [each["kind"] for each in found.differences] == ["missing", "changed"]
    compared = planned.compare()
    assert sum(each.different for each in compared.partitions) == 2


def test_an_engine_elsewhere_says_how_many_tasks_it_runs(connect_server: str) -> None:
    """In a process of its own: PySpark has one kind of session in each."""
    done = subprocess.run(
        [sys.executable, "-c", REMOTE, connect_server], capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stderr
    assert 1 <= int(done.stdout) <= 64
