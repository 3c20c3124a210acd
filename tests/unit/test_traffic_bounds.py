"""A document that takes much more memory than its bytes is refused; long texts are not."""

import json

import pytest

from playhead.traffic import json_documents
from playhead.traffic.http_body import request_json
from playhead.traffic.json_documents import loaded, loaded_text, parsed
from playhead.traffic.pair_path import MISSING, _document

MOST = 1_000


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_documents, "_MOST_VALUES", MOST)


def test_as_many_values_as_a_few_kilobytes_can_hold_are_refused() -> None:
    many = b'{"a":[' + b"[]," * (4 << 20) + b"[]]}"
    assert parsed(many) == "not valid JSON: a document of more than 4,194,304 values"


@pytest.mark.parametrize("value", ["[]", "{}", "1", '"a"', '"\\\\"', '{"a":1}'])
@pytest.mark.usefixtures("few")
def test_too_many_values_are_refused_wherever_a_document_is_read(value: str) -> None:
    many = "[" + ",".join([value] * (MOST + 1)) + "]"
    with pytest.raises(ValueError, match="more than 1,000 values"):
        loaded(many.encode())
    assert _document(many) is MISSING
    assert request_json({"http": {"req": {"body": many}}}) is None


@pytest.mark.parametrize(
    "text", ["," * 3_000, "[{" * 3_000, '\\",[' * 3_000, "\\\\" * 9 + '",[' * 900]
)
@pytest.mark.usefixtures("few")
def test_what_stands_in_strings_is_no_value(text: str) -> None:
    document = {"a": text, text: [1]}
    assert loaded_text(json.dumps(document)) == document
