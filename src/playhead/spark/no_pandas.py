"""Keeps pandas out of a worker during our tasks.

For the first list that becomes a column, PyArrow checks whether it is a pandas object, and imports pandas
for that. In a worker this took longer than all other imports, and nothing here uses it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec

_PANDAS = "pandas"


class _Hidden:
    """Makes the import of one name fail."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name == _PANDAS:
            raise ModuleNotFoundError(f"{name} is not available in this task", name=name)
        return None


@contextmanager
def without_pandas() -> Iterator[None]:
    """Block the import of pandas in this block, unless it was imported before; later users can import it."""
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        yield
    finally:
        sys.meta_path.remove(hidden)
        _look_anew()


def _look_anew() -> None:
    """Make PyArrow check again, because it caches the result."""
    looked = getattr(sys.modules.get("pyarrow.lib"), "_pandas_api", None)
    if looked is not None:
        looked.__init__()
