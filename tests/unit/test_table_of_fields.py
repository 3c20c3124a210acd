"""A table that is made has a column for each field, or the plan says why none can be made."""

import json
from contextlib import suppress
from dataclasses import replace

import pytest

from playhead.errors import Refused
from playhead.postgres.create_table import table_for
from playhead.postgres.session import TableName
from playhead.records import Records
from tests import poison
from tests.unit.replaying import record

TABLE = TableName("s", "t")


def made(*values: bytes) -> str:
    held = [replace(record(n), value=value) for n, value in enumerate(values)]
    return str(table_for(TABLE, [Records.of(held)], (), {}).statement)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("n" * 64, "has 64 bytes"),
        ("€" * 22, "has 66 bytes"),
        ("n" * 5_000, "has 5000 bytes"),
        ("a\0b", "a character NUL"),
        ("a\ud800", "half of a surrogate pair"),
        *((name, "is a system column") for name in ("ctid", "xmin", "xmax", "cmin", "cmax")),
        ("tableoid", "is a system column"),
        *(
            (name, "Playhead fills")
            for name in ("_key", "_topic", "_offset", "_partition", "_timestamp", "_headers")
        ),
        ("_extra", "Playhead fills"),
        ("playhead:offset", "begins with 'playhead:'"),
    ],
)
def test_a_field_of_which_no_column_can_be_made_is_refused(name, reason):
    with pytest.raises(Refused, match=reason) as caught:
        made(json.dumps({"fine": 1, name: 2}).encode())
    assert len(caught.value.message) < 400
    assert "--select" in (caught.value.hint or "")


def test_two_names_that_the_server_would_make_one_are_refused():
    with pytest.raises(Refused, match="has 64 bytes.*has 64 bytes"):
        made(json.dumps({"n" * 63 + "a": 1, "n" * 63 + "b": 2}).encode())


def test_more_fields_than_a_table_has_columns_are_refused():
    assert made(json.dumps({f"f{n}": n for n in range(1_595)}).encode())
    with pytest.raises(Refused, match="cannot have 1,596 columns.* maximum is 1,600"):
        made(json.dumps({f"f{n}": n for n in range(1_596)}).encode())


def test_names_that_are_long_or_strange_and_can_be_columns_are():
    for name in ("n" * 63, "€" * 21, "a b", 'a"b', "CTID", "select", "é", "a\nb", "_value"):
        assert "CREATE TABLE" in made(json.dumps({name: 1}).encode())


def test_whatever_a_sample_holds_the_answer_is_ours():
    for each in poison.records():
        if each.value is not None:
            with suppress(Refused):
                assert "CREATE TABLE" in made(b'{"fine":1}', each.value), each.label


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ("[0.1, 1, 1e300, -0.0]", "double precision"),
        ("[0.1234567890123456789]", "numeric"),
        ("[0.30000000000000004, 231.5]", "double precision"),
        ("[9007199254740993, 0.5]", "numeric"),
        ("[1e999]", "numeric"),
        ("[1, 2]", "bigint"),
        ("[99999999999999999999]", "numeric"),
    ],
)
def test_the_type_of_numbers_holds_all_of_their_digits(numbers, kind):
    values = [f'{{"n":{each}}}'.encode() for each in numbers.strip("[]").split(", ")]
    assert f'"n" {kind},' in made(*values)
