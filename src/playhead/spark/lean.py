"""What a worker is spared while it does a task of ours: pandas, and Python's looking for circles.

PyArrow asks, for the first list that becomes a column, whether it is one of pandas', and imports pandas to
know. In a worker that took longer than to import all the rest, and nothing here uses it.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec

_PANDAS = "pandas"
_OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Python's own are 700; to take in records makes objects by the million, and no circles of them."""


@contextmanager
def task() -> Iterator[None]:
    """For as long as the task lasts; whoever has the worker next finds it as it was."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *thresholds[1:])
    try:
        with _without_pandas():
            yield
    finally:
        gc.set_threshold(*thresholds)


class _Hidden:
    """Finds nothing, and lets nobody after it find anything, under one name."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name == _PANDAS:
            raise ModuleNotFoundError(f"{name} is not looked for in this task", name=name)
        return None


@contextmanager
def _without_pandas() -> Iterator[None]:
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        yield
    finally:
        sys.meta_path.remove(hidden)
        _look_anew()


def _look_anew() -> None:
    """PyArrow looks once, and remembers."""
    looked = getattr(sys.modules.get("pyarrow.lib"), "_pandas_api", None)
    if looked is not None:
        looked.__init__()
