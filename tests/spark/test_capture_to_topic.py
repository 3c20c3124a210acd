"""The whole way: an application reads through the proxy, and what it read is played onto a fresh topic."""

import csv
import io
import json
from typing import Any

from tests.fix_capture import StartCapture
from tests.fix_commands import Playhead
from tests.fix_replay import ODD_SETTINGS, Deck, contents, totals
from tests.fix_topics import records_in

_DOCUMENTED = "kafka.response.FetchResponse.topics.0.partitions.0.records.records.0.valueString"
_FETCHED = '(command IS "Fetch")'


def test_what_an_application_read_through_the_proxy_is_replayed(
    deck: Deck, oddities: str, start_capture: StartCapture, playhead: Playhead
) -> None:
    capturing = start_capture()
    original = records_in(capturing.kafka, oddities)
    assert contents(original) == contents(deck.records(oddities))
    assert capturing.stop()["lost"] == 0
    snapshot = capturing.folder

    extracted = playhead("extract", str(snapshot), "--path", _DOCUMENTED, f"--filter={_FETCHED}")
    assert extracted.returncode == 0, extracted.stderr
    rows = [*csv.DictReader(io.StringIO(extracted.stdout))]
    assert [row[_DOCUMENTED] for row in rows] == _first_texts(capturing.pairs())
    assert rows

    copy = deck.topic("from-capture", 2, **ODD_SETTINGS)
    planned = deck.plan(f"rrpair:{snapshot}", f"kafka:{copy}", partition="keep", filter=_FETCHED)
    proof = planned.run()
    assert proof.adds_up, proof.verdict()
    assert totals(proof) == {"written": len(original)}
    assert contents(deck.records(copy)) == contents(original)
    assert planned.verify().agrees


def _first_texts(pairs: list[dict[str, Any]]) -> list[str]:
    """What the documented path names, looked up step by step."""
    found = []
    for pair in pairs:
        value: Any = pair if pair["command"] == "Fetch" else None
        for step in _DOCUMENTED.split("."):
            if isinstance(value, list):
                value = value[int(step)] if int(step) < len(value) else None
            elif isinstance(value, dict):
                value = value.get(step)
        if value is not None:
            found.append(value if isinstance(value, str) else json.dumps(value))
    return found
