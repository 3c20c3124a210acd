"""The words that the rules of a replay know, for every face that takes them."""

from typing import Final

CONFLICTS: Final = ("ignore", "newer", "update", "error")
TOMBSTONES: Final = ("delete", "skip", "null")
PARTITIONS: Final = ("auto", "keep", "key", "any")
TIMES: Final = ("record", "pair")
