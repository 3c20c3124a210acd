"""A document that takes much more memory than its bytes is refused; long texts are not."""

import gzip
import json
import os
import time
import tracemalloc
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from playhead import json_objects
from playhead.traffic import json_documents
from playhead.traffic.formats import har, rrpair
from playhead.traffic.http_body import request_json, xml_texts
from playhead.traffic.json_documents import loaded, loaded_text, parsed
from playhead.traffic.pair_path import MISSING, _document
from playhead.traffic.snapshot import NoSnapshot, of_file, opened

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


@pytest.mark.parametrize("sign", ["\U0001f600", "\\ud83d\\ude00"])
def test_one_wide_character_does_not_make_a_long_document_four_times_as_large(
    sign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compressed capture of 250 kB took five gigabytes."""
    monkeypatch.setattr(json_documents, "_MOST_WIDE", 1 << 16)
    for size, is_read in ((1 << 15, True), (1 << 16, False)):
        text = f'{{"a":"{sign}{"x" * size}"}}'
        assert isinstance(parsed(text.encode()), dict) is is_read
        assert (_document(text) is not MISSING) is is_read
    assert isinstance(parsed(f'{{"a":"\u4e00{"x" * (1 << 17)}"}}'.encode()), dict)
    assert "a character beyond U+FFFF" in str(parsed(text.encode()))


def test_a_document_of_many_short_lines_takes_little_more_memory_than_its_bytes() -> None:
    data = b"{\n" + b" \n" * 300_000
    tracemalloc.start()
    try:
        [found] = json_documents.documents(BytesIO(data))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(found, json_documents.Unread)
    assert (found.reason, found.lines) == ("the document has no end", 300_001)
    assert most < 4 * len(data)


def test_many_short_strings_are_counted_in_little_more_memory_than_their_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A compressed capture of 3 MB took four gigabytes."""
    monkeypatch.setattr(json_documents, "_MOST_VALUES", 1 << 16)
    monkeypatch.setattr(json_objects, "_BLOCK", 1 << 12)
    many = b'{"":1' + b',"":1' * (1 << 16) + b"}"
    tracemalloc.start()
    try:
        found = parsed(many)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == "not valid JSON: a document of more than 65,536 values"
    assert most < 6 * len(many)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_values_are_counted_across_blocks(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_objects, "_BLOCK", size)
    monkeypatch.setattr(json_documents, "_MOST_VALUES", 40)
    kept = json.dumps(["[,{" * 30, 'a"b', "\\", "", {"x,y": [1, "{"]}] * 4)
    assert loaded_text(kept) == json.loads(kept)
    with pytest.raises(ValueError, match="more than 40 values"):
        loaded_text(json.dumps(['a"[', ",", 1] * 20))


def texts(body: str, path: str) -> list[str]:
    return list(xml_texts({"http": {"req": {"body": body}}}, path))


@pytest.mark.parametrize(
    ("body", "path", "count"),
    [
        ("<r>" + "<a/>" * 200_000 + "</r>", "r/a[2]", 1),
        ("<r>" + "<a/>" * 200_000 + "</r>", "/r/a[last()-1]", 1),
        ("<r>" + "<a x='1'/>" * 100_000 + "</r>", "r/a[@x='1'][2]", 1),
        ("<a>" * 99 + "<b/>" * 50_000 + "</a>" * 99, "//a//a//b", 50_000),
        ("<r>" + "<a/>" * 2_200_000 + "</r>", "r/a", 0),
    ],
)
def test_a_path_takes_time_for_the_document_and_not_for_its_square(
    body: str, path: str, count: int
) -> None:
    begun = time.process_time()
    assert len(texts(body, path)) == count
    assert time.process_time() - begun < 10


def test_texts_that_contain_each_other_are_not_all_in_memory() -> None:
    deep = "<a>" * 90 + "x" * 200_000 + "</a>" * 90
    tracemalloc.start()
    try:
        assert sum(map(len, xml_texts({"http": {"req": {"body": deep}}}, "//a"))) == 90 * 200_000
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 * len(deep)
    assert texts("<a>" * 101 + "</a>" * 101, "//a") == []


DOCUMENT = (
    "<o><i n='1'><s>a</s><s>b</s></i><i n='2' k='[2]/x'><s>c</s><j><s>d</s></j></i><i n='3'/></o>"
)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/o/i[2]/s", ["c"]),
        ("//s", ["a", "b", "c", "d"]),
        ("//i//s[1]", ["a", "c", "d"]),
        ("i[last()-1]/@n", ["2"]),
        ("o/i[@k='[2]/x']/j/s", ["d"]),
        ("o/i[s='c'][2]/s", ["c"]),
        ("o/i[s='c'][1]/s", []),
        ("//j/../@n", ["2"]),
        ("/", []),
        ("o/i[0]", []),
        ("o/i[9]", []),
        ("o/i[", []),
    ],
)
def test_a_path_means_what_it_means_elsewhere(path: str, found: list[str]) -> None:
    assert texts(DOCUMENT, path) == found


@pytest.mark.parametrize("names", ['<b{0} c="1"/>', '<b c{0}="1"/>', "<b><p:c{0}/></b>"])
def test_a_long_namespace_is_not_repeated_for_each_name(names: str) -> None:
    many = "".join(names.format(number) for number in range(5_000))
    body = f'<a xmlns="{"n" * 40_000}" xmlns:p="{"p" * 40_000}">{many}</a>'
    tracemalloc.start()
    try:
        assert texts(body, "//b") == []
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 20 * len(body)


def test_a_namespace_of_usual_length_names_many_elements() -> None:
    many = "<b>1</b>" * 50_000
    assert (
        len(texts(f'<a xmlns="http://schemas.example.org/{"n" * 60}">{many}</a>', "/a/b")) == 50_000
    )


HUGE = 10**30


@pytest.mark.parametrize(
    ("set_", "answer"),
    [
        ({"baseOffset": HUGE, "records": [{"offsetDelta": 5 - HUGE, "valueString": "v"}]}, None),
        ({"baseOffset": -HUGE, "records": [{"offsetDelta": HUGE, "valueString": "v"}]}, None),
        (
            {"records": [{"offsetDelta": 5 - HUGE, "valueString": "v"}]},
            {"baseOffset": HUGE},
        ),
        ({"records": [{"valueString": "v"}]}, {"baseOffset": 5, "logAppendTimeMs": -HUGE}),
        ({"records": [{"valueString": "v"}]}, {"baseOffset": 5, "logAppendTimeMs": HUGE}),
    ],
)
def test_numbers_of_any_size_are_no_fault(
    set_: dict[str, Any], answer: dict[str, Any] | None, tmp_path: Path
) -> None:
    def topics(partition: dict[str, Any]) -> dict[str, Any]:
        return {"topics": [{"name": "t", "partitions": [{"index": 0, **partition}]}]}

    kafka: dict[str, Any] = {"response": {"FetchResponse": topics({"records": set_})}}
    if answer is not None:
        kafka = {"request": {"ProduceRequest": topics({"records": set_})}}
        kafka["response"] = {"ProduceResponse": topics(answer)}
    file = tmp_path / "raw.jsonl"
    file.write_text(json.dumps({"l7protocol": "kafka", "kafka": kafka}) + "\n")
    counts = rrpair.scan(of_file(file), rrpair.Part(0, 0, None), None).counts
    assert counts.get("lots", 0) + counts.get("strange", 0) == 1


def test_a_form_that_would_take_ten_times_its_letters_is_not_read(tmp_path: Path) -> None:
    """A compressed capture of 250 kB took four gigabytes, and minutes."""
    forms = [[{"name": "a", "value": "x" * size}] for size in (1 << 20, (16 << 20) + 1)]
    requests = [{"method": "POST", "url": "/", "postData": {"params": form}} for form in forms]
    entries = [{"startedDateTime": "2026-01-01T00:00:00Z", "request": each} for each in requests]
    file = tmp_path / "a.har"
    file.write_text(json.dumps({"log": {"entries": entries}}))
    catalog = har.scan(of_file(file))
    assert catalog.counts == {"requests": 2, "records": 1, "unread": 1}
    assert [*catalog.troubles] == ["entry 1: a form of more than 16 million letters"]


@pytest.mark.parametrize("zeros", [512, 1 << 20])
def test_zeros_that_pad_a_packed_file_are_left_out(tmp_path: Path, zeros: int) -> None:
    file = tmp_path / "padded.gz"
    file.write_bytes(gzip.compress(b"one") + bytes(zeros) + gzip.compress(b" two"))
    with opened(file) as content:
        assert content.read() == b"one two"


def test_zeros_without_an_end_behind_a_packed_file_are_not_read(tmp_path: Path) -> None:
    file = tmp_path / "endless.gz"
    file.write_bytes(gzip.compress(b"one"))
    os.truncate(file, 1 << 40)
    with pytest.raises(NoSnapshot, match=r"more than 1,048,576 zeros"), opened(file) as content:
        content.read()


@pytest.mark.parametrize("begin", ['{"a":"', "{}", " ", "{"])
def test_a_line_that_is_too_long_is_not_called_cut_off(
    begin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is complete, and another recording of it would be as long; it is not parsed in part either."""
    monkeypatch.setattr(json_documents, "LONGEST", 1 << 20)
    text = begin.ljust((1 << 20) + 10) + '"}\n{"b":1}\n'
    long, short = json_documents.documents(BytesIO(text.encode()))
    assert isinstance(long, json_documents.Unread)
    assert long.reason == "a line longer than 1 MB"
    assert isinstance(short, json_documents.Document)
    assert (short.line, short.held) == (2, {"b": 1})


def test_nor_is_one_in_a_document_of_many_lines_or_in_a_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_documents, "LONGEST", 1 << 20)
    spaces = " " * (1 << 20)
    pretty = f'{{\n}}{spaces}{{"a":1}}\n{{"b":1}}\n'
    long, short = json_documents.documents(BytesIO(pretty.encode()))
    assert isinstance(long, json_documents.Unread)
    assert (long.reason, long.lines) == ("a line longer than 1 MB", 2)
    assert isinstance(short, json_documents.Document)
    assert (short.line, short.held) == (3, {"b": 1})
    recording = f'### REQUEST ###\n### INTERNAL ###\njson: {{"a":1}}{spaces}x\n'
    [long] = json_documents.documents(BytesIO(recording.encode()))
    assert isinstance(long, json_documents.Unread)
    assert (long.line, long.reason) == (3, "a line longer than 1 MB")
