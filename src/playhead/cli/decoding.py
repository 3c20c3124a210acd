"""What keys and values are, as the options say it, and records decoded by it."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import typer

from playhead.cli.options import Parameters, Run
from playhead.cli.output import tell
from playhead.errors import BadValue, PlayheadError
from playhead.records import Records

DECODING: Parameters = {}
Fits = Callable[[bytes | None, bytes | None], bool]


@dataclass(slots=True)
class Decoded:
    failed: int = 0

    def take(
        self, records: Records, indexes: Sequence[int], left: int | None, fits: Fits | None = None
    ) -> list[int]:
        found = []
        for n in indexes:
            if len(found) == left:
                break
            if fits is None or fits(records.keys[n], records.values[n]):
                found.append(n)
        return found

    def as_bytes(self, records):
        return records.keys, records.values

    def as_json(self, records):
        return {}


def decoders(run: Run) -> Decoded:
    return Decoded()
