"""What the Kafka client does not give to a replay, `verify` sees in the log."""

from pathlib import Path

import pytest

from playhead.replay.api import Planned
from playhead.replay.verify import Verification
from tests.fix_replay import Deck, ran
from tests.sandbox.kafka_log import produce_raw

PLAIN = (1_000, b"k", b'{"v": 1}', ((b"h", b"1"),))
CUT = (1_000, b"k", b'{"v": 1}', ((b"a\0b", b"1"),))
MANY = (1_000, b"k", b'{"v": 1}', ((b"a", None),) * 100_001)


def played(deck: Deck, target: str, *rows: tuple[object, ...]) -> Planned:
    topic = deck.topic()
    produce_raw(deck.connection, topic, 0, rows)
    planned = deck.plan(f"kafka:{topic}", target)
    ran(planned)
    return planned


def texts(found: Verification) -> list[str]:
    return [each["text"] for each in found.differences]


@pytest.mark.parametrize(
    ("lost", "said"),
    [(CUT, "is a copy of it, but should not exist"), (MANY, "has different content")],
)
def test_headers_that_were_lost_in_a_copy_are_a_difference(
    deck: Deck, lost: tuple[object, ...], said: str
) -> None:
    """The name with a NUL would have been refused: no record can be sent with it."""
    copy = deck.topic("copy")
    planned = played(deck, f"kafka:{copy}", PLAIN, lost, PLAIN)
    found = planned.verify()
    assert not found.agrees
    source, content = texts(found)
    assert (
        "3 records as before, but some have changed, or were not complete when they were read"
        in source
    )
    assert f"{copy}:0 offset 1" in content
    assert content.endswith(said)
    assert not planned.compare().agrees, "without a run, by sums"


@pytest.mark.parametrize("lost", [CUT, MANY])
def test_headers_that_were_lost_in_an_archive_are_a_difference(
    deck: Deck, tmp_path: Path, lost: tuple[object, ...]
) -> None:
    planned = played(deck, f"json:{tmp_path}/archive", PLAIN, lost, PLAIN)
    assert not planned.verify().agrees
    assert [each["offset"] for each in planned.compare().differences] == [1]


def test_headers_that_were_lost_in_a_table_are_a_difference(deck: Deck) -> None:
    table = deck.table("v int, _headers jsonb, _partition int, _offset bigint PRIMARY KEY")
    planned = played(deck, f"postgres:{table}", PLAIN, MANY, PLAIN)
    for found in (planned.verify(), planned.compare()):
        assert [each["offset"] for each in found.differences if each["kind"] == "changed"] == [1]


def test_a_copy_of_headers_that_the_client_gives_is_verified(deck: Deck, tmp_path: Path) -> None:
    for target in (f"kafka:{deck.topic('copy')}", f"json:{tmp_path}/archive"):
        planned = played(deck, target, PLAIN, PLAIN)
        assert planned.verify().agrees
        assert planned.compare().agrees
