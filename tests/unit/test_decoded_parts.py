"""Decoded values are far longer than their bytes at times: a run of records is then decoded in parts."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from playhead.decoding import reading
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.schemas import value_decoder
from playhead.schemas.value_decoder import ValueDecoding
from playhead.spark import arrow_rows, stream
from playhead.task.round import _Part

SLICE = Slice("t", 0, 0, 10)


class _Source:
    """Reads one run of records, as a source does."""

    def __init__(self, run: Records) -> None:
        self.run = run

    def read(self, _: Slice) -> list[Records]:
        return [self.run]


def test_values_of_a_few_bytes_each_do_not_become_gigabytes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run has up to 20,000 records, each of which can decode to megabytes."""
    monkeypatch.setattr(value_decoder, "MOST_DECODED", 100)
    values = [b"\xff" * 20, None, b"\xfe" * 20, b"", *[b"\x00" * 20] * 4, b"\x01" * 200, b"\x02"]
    run = Records.of(
        [
            Record("t", 0, at, 0, TimestampType.CREATE_TIME, None, value)
            for at, value in enumerate(values)
        ]
    )
    reader = reading(cast(Any, _Source(run)), ValueDecoding("hex"))
    parts = [*reader.read(SLICE)]
    assert [len(each) for each in parts] == [5, 3, 1, 1]
    assert [at for each in parts for at in each.offsets] == run.offsets
    assert [held for each in parts for held in each.readable] == [
        None if value is None else value.hex().encode() for value in values
    ]
    [empty] = reading(cast(Any, _Source(run.cut(0, 0))), ValueDecoding("hex")).read(SLICE)
    assert not len(empty)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Records:
    """Four records, each of which fills a part."""
    monkeypatch.setattr(value_decoder, "MOST_DECODED", 4)
    return Records.of(
        [Record("t", 0, at, 0, TimestampType.CREATE_TIME, None, b"ab") for at in range(4)]
    )


def test_the_parts_of_a_round_keep_the_verdicts_of_their_records(run: Records) -> None:
    written = cast(Any, SimpleNamespace(_open_writer=SimpleNamespace()))
    for decoder, parts in (
        (ValueDecoding("hex").open(), [[0], [1], [0], [0]]),
        (None, [[0, 1, 0, 0]]),
    ):
        written._open_writer.decoder = decoder
        found = [*_Part._decoded(written, [(run, [0, 1, 0, 0])])]
        assert [verdicts for _, verdicts in found] == parts
        assert [at for records, _ in found for at in records.offsets] == run.offsets
        assert {verdicts for _, verdicts in _Part._decoded(written, [(run, None)])} == {None}


def test_a_pipeline_with_expressions_leaves_out_none_of_the_parts(run: Records) -> None:
    decoder = stream._Decoder(ValueDecoding("hex"))
    found = [*decoder.work(iter([arrow_rows.of(run, 0, None)]))]
    offsets = [
        at for part in found for each in arrow_rows.runs(part) for at in each.records.offsets
    ]
    assert offsets == run.offsets
