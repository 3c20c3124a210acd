"""A note of a plan or proof: a fact that a user should know, with its severity."""

from dataclasses import dataclass
from typing import Literal

Weight = Literal["info", "warn"]


@dataclass(frozen=True, slots=True)
class Note:
    """`code` is stable, for programs; `text` is a sentence for people."""

    code: str
    text: str
    weight: Weight = "warn"
