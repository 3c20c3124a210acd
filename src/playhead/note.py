"""A thing worth knowing before a replay runs: what it is about, and how much it matters."""

from dataclasses import dataclass
from typing import Literal

Weight = Literal["info", "warn"]


@dataclass(frozen=True, slots=True)
class Note:
    """`code` is stable, for programs; `text` is a sentence, for people."""

    code: str
    text: str
    weight: Weight = "warn"
