"""The list item that makes a `ListSource` fail once while it is read."""

from dataclasses import dataclass, field
from threading import Lock
from uuid import uuid4

from playhead.host.faults import Aborted

# Kept here and not in the item: a fault must happen once per process, although the source and its items are
# pickled for every task.
_happened: set[str] = set()
_happening = Lock()


@dataclass(frozen=True, slots=True)
class Abort:
    """An item in the list of a `ListSource`, at which reading fails once.

    It belongs to the record that follows it, or at the end of a list to the last record: only a read of that
    record raises the error.
    """

    error: Exception | None = None
    """The error to raise; default `Aborted`."""
    identity: str = field(default_factory=lambda: uuid4().hex)

    def happen(self) -> None:
        """Raise the error, unless this item has already raised it in this process."""
        with _happening:
            if self.identity in _happened:
                return
            _happened.add(self.identity)
        raise self.error or Aborted("an Abort() in the list of a source")
