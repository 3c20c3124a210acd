"""An item in the list of a source that makes reading fail once."""

from dataclasses import dataclass, field
from threading import Lock
from uuid import uuid4

from playhead.host.faults import Aborted

# Kept here and not in the item: a fault must happen once although the source, and the item with
# it, was pickled for every task. Another process has its own.
_happened: set[str] = set()
_happening = Lock()


@dataclass(frozen=True, slots=True)
class Abort:
    """An item in the list of a `ListSource`: at this place reading fails, once.

    It stands before the record that follows it, and at the end of a list after the last record:
    only who reads that record meets it.
    """

    error: Exception | None = None
    """What is raised; `Aborted` unless said."""
    identity: str = field(default_factory=lambda: uuid4().hex)

    def happen(self) -> None:
        """Raise the error, unless this one already has in this process."""
        with _happening:
            if self.identity in _happened:
                return
            _happened.add(self.identity)
        raise self.error or Aborted("an Abort() in the list of a source")
