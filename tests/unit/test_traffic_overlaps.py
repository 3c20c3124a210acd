"""A capture whose record sets overlap, or are in one document, takes no more than its size deserves."""

import json

import pytest

from playhead.traffic import partition_offsets
from playhead.traffic.catalog import Catalog, CatalogRow
from playhead.traffic.formats import rrpair
from playhead.traffic.partition_offsets import CapturedPartition
from playhead.traffic.record_sets import lots_of


def sparse(number: int, of: int) -> CatalogRow:
    """A record set from `number` to an offset behind the beginnings of all, of two records."""
    return CatalogRow(0, number, 1, -1, number, 0, 3 * of - 2 * number, 2, 0, 0, 0, -1, 0)


def dense(of: int) -> CatalogRow:
    return CatalogRow(0, of, 1, -1, 1, 0, 4 * of, 4 * of + 1, 0, 0, 0, -1, 0)


@pytest.mark.parametrize("more", [(), (dense(300),)])
def test_record_sets_that_all_overlap_are_numbered(
    more: tuple[CatalogRow, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_offsets, "_LEAST_OVERLAPS", 1_000)
    rows = [*(sparse(number, 300) for number in range(300)), *more]
    found = CapturedPartition.of(rows)
    assert found.reason == "too many of its record sets were captured at the same offsets"
    assert found.bounds.stable_end == sum(row.records for row in rows)
    assert all(len(piece.held) == 1 for piece in found.pieces)


def test_some_record_sets_at_the_same_offsets_keep_them() -> None:
    found = CapturedPartition.of([sparse(number, 300) for number in range(300)])
    assert (found.reason, found.is_numbered) == (None, False)
    assert found.bounds.stable_end == 901


def test_a_document_of_many_record_sets_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = [{"baseOffset": str(n), "records": [{"valueString": f"v{n}"}]} for n in range(200)]
    topic = {"name": "t", "partitions": [{"index": 0, "records": sets}]}
    pair = {"command": "Fetch", "kafka": {"response": {"FetchResponse": {"topics": [topic]}}}}
    parsed = []
    monkeypatch.setattr(rrpair, "lots_of", lambda pair: parsed.append(pair) or lots_of(pair))
    data = json.dumps(pair).encode()
    for number in range(200):
        row = CatalogRow(0, 0, len(data), number, number, 0, 0, 1, 0, 0, 0, -1, 0)
        assert rrpair.read_row(data, row, Catalog()).values == [f"v{number}".encode()]
    assert len(parsed) == 1
