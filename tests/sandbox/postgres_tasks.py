"""Tasks that commit the slices of a table's partitions in any order, each with a cut of its own."""

from contextlib import ExitStack
from dataclasses import replace

from hypothesis import strategies as st

from playhead.account import Account
from playhead.errors import Unavailable
from playhead.ledger import remaining
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.target import AlreadyCommitted, Writer
from playhead.task.commit_order import follows_in
from tests.sandbox.postgres_table import REPLAY, Table

Turns = list[tuple[int, int | None]]


def turns_of(partitions: int) -> st.SearchStrategy[Turns]:
    """Which task goes on, of two for each partition; and if it was started again before, how far ahead
    of what the ledger says is left, as if a piece of the partition were another task's."""
    ahead = st.sampled_from([None, None, None, 0, 0, 1, 3])
    return st.lists(st.tuples(st.integers(0, 2 * partitions - 1), ahead), max_size=30)


def emptied(table: Table) -> None:
    table.run("TRUNCATE {table}")
    table.run(f'TRUNCATE "{table.schema}".ledger')


def play_in_turns(table: Table, logs_: list[list[Record]], cuts: list[int], turns: Turns) -> None:
    """Tasks commit in any order, each with its own cut; at last all that is left is done."""
    tasks: dict[int, Task] = {}
    with ExitStack() as stack:
        writers = [stack.enter_context(table.target.open(REPLAY)) for _ in cuts]

        def made(number: int, ahead: int = 0) -> Task:
            items = logs_[number % len(logs_)]
            plan = [Slice("cars", number % len(logs_), 0, len(items))] if items else []
            known = [entry.slice for entry in table.target.entries(REPLAY)]
            left = remaining(plan, known)
            skipped = [replace(each, to_offset=each.from_offset + ahead) for each in left if ahead]
            return Task(writers[number], items, remaining(left, skipped), cuts[number])

        for number, ahead in turns:
            if ahead is not None or number not in tasks:
                tasks[number] = made(number, ahead or 0)
            tasks[number].step()
        # What is most easily left to whoever comes last has to come first.
        for partition in reversed(range(len(logs_))):
            last = made(partition)
            while last.left:
                last.step()


class Task:
    """A writer that was started when the ledger said what it said, and goes on from there."""

    def __init__(self, writer: Writer, items: list[Record], left: list[Slice], most: int) -> None:
        self.writer, self.items, self.left, self.most = writer, items, left, most
        self.plan = [Slice("cars", each.partition, 0, len(items)) for each in left]

    def step(self) -> None:
        """Commit the next slice, or end, as a task does that is refused."""
        if not self.left:
            return
        head = self.left[0]
        end = min(head.from_offset + self.most, head.to_offset)
        slice_ = replace(head, to_offset=end)
        rows = [each for each in self.items if each in slice_]
        account = Account(slice_)
        account.read, account.follows = len(rows), follows_in(self.plan)(slice_)
        try:
            self.writer.commit(account, [Records.of(rows)] if rows else [])
        except (AlreadyCommitted, Unavailable):
            self.left = []
            return
        self.left = remaining(self.left, [slice_])
