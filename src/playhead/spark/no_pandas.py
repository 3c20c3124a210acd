"""Keeps pandas out of a worker while it does a task of ours.

PyArrow asks, for the first list that becomes a column, whether it is one of pandas', and imports pandas to
know. In a worker that took longer than to import all the rest, and nothing here uses it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec

_PANDAS = "pandas"


class _Hidden:
    """Finds nothing, and lets nobody after it find anything, under one name."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name == _PANDAS:
            raise ModuleNotFoundError(f"{name} is not looked for in this task", name=name)
        return None


@contextmanager
def without_pandas() -> Iterator[None]:
    """To import it fails in here, unless that was done before; whoever has the worker next finds it."""
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
