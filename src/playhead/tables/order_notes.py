"""What a plan says where several partitions or topics go to one table."""

from collections.abc import Iterator, Sequence

from playhead.errors import Refused
from playhead.note import Note


def notes_of_order(
    rule: str | None, *, partitions: int, is_ordered: bool, version: str = "", more: str = ""
) -> Iterator[Note]:
    """Return a note on which record of a key becomes its row.

    `is_ordered` says whether this depends on the order of two records of one partition; partitions have none.
    """
    text = "if records have the same key, the "
    if rule == "newer":
        text += f"latest {version} wins, then the higher partition and offset{more}"
        yield Note("target-order", text, "info")
    elif is_ordered and partitions > 1:
        which = "first" if rule in ("ignore", "error") else "last"
        text += f"{which} of its partition wins; between partitions there is no order{more}"
        yield Note("target-order", text, "info")


def refuse_one_table(topics: Sequence[str], table: str) -> None:
    """Refuse several topics in one table where the target has one for each."""
    if len(topics) > 1:
        raise Refused(
            f"the topics {', '.join(topics)} would go to one table, {table}, though {{topic}} is in its name",
            hint="names of tables may be compared without case: replay each topic into a table that you name",
        )
