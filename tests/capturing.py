"""Captured traffic made of records, as the capture tools write it, and damage done to it."""

import base64
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from playhead.record import Record, Slice
from playhead.source import Source

DATA = Path(__file__).parent / "data" / "traffic"
SNAPSHOT = DATA / "rrpairs_raw.jsonl"


def written(name: str, found: bytes | None) -> dict[str, str]:
    """A key or a value: a text where the bytes are one, base64 where they are not, nothing for null."""
    if found is None:
        return {}
    try:
        return {f"{name}String": found.decode()}
    except UnicodeDecodeError:
        return {name: base64.b64encode(found).decode()}


def set_of(records: Sequence[Record], *, base: int | None = None) -> dict[str, Any]:
    """A set of records of one partition; what is zero is left out."""
    first = records[0].offset if base is None else base
    base_ms = records[0].timestamp_ms
    rows = []
    for record in records:
        row: dict[str, Any] = {}
        if record.offset != first:
            row["offsetDelta"] = record.offset - first
        if record.timestamp_ms != base_ms:
            row["timestampDelta"] = str(record.timestamp_ms - base_ms)
        row |= written("key", record.key) | written("value", record.value)
        if record.headers:
            row["headers"] = [{"keyString": n, **written("value", v)} for n, v in record.headers]
        rows.append(row)
    found: dict[str, Any] = {"attributes": ["ATTRIBUTE_NO_COMPRESSION"], "magic": 2}
    found |= {"baseTimestamp": str(base_ms), "records": rows}
    return found | ({"baseOffset": str(first)} if first else {})


def fetch(
    *sets: tuple[str, int, Sequence[Record]], at: str = "10:00:00", **more: Any
) -> dict[str, Any]:
    """A pair of a Fetch that brought these records."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, partition, records in sets:
        index = {"index": partition} if partition else {}
        topics.setdefault(topic, []).append({**index, "records": set_of(records)})
    body = {"topics": [{"name": name, "partitions": held} for name, held in topics.items()]}
    return pair("Fetch", {"response": {"FetchResponse": body}}, at=at, **more)


def pair(
    command: str, kafka: dict[str, Any], *, at: str = "10:00:00", **more: Any
) -> dict[str, Any]:
    around = {
        "msgType": "rrpair",
        "ts": f"2026-03-02T{at}Z",
        "l7protocol": "kafka",
        "uuid": "RPeizCBFT7aWNT2oqn+pAQ==",
        "command": command,
    }
    return around | more | {"kafka": kafka}


def save(path: Path, pairs: Iterable[dict[str, Any]]) -> Path:
    """One on each line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in pairs))
    return path


def everything(source: Source) -> list[Record]:
    """All records that a source has."""
    found: list[Record] = []
    with source.open() as reader:
        for place, bounds in source.bounds().items():
            if bounds.earliest < bounds.stable_end:
                whole = Slice(*place, bounds.earliest, bounds.stable_end)
                found += [record for run in reader.read(whole) for record in run]
    return found


def markdown(pair: dict[str, Any], body: str = "") -> str:
    """As proxymock writes a recording: what people read, and the pair as one line of JSON."""
    return (
        f"### REQUEST ###\n```\n{pair['command']}\n```\n\n```\n{body}\n```\n\n"
        f"### METADATA ###\n```\nts: {pair['ts']}\n```\n\n"
        f"### INTERNAL - DO NOT MODIFY ###\n```\njson: {json.dumps(pair)}\n```\n"
    )
