"""Makes a package callable by its own name: `kafka("orders")` is an endpoint, `playhead.kafka` the
package.

The Python API uses `Replay(source=kafka("orders"), …)`, and the source tree has a folder of the same
name. Python has one attribute for both, and an import below the folder sets it to the folder.
"""

import sys
from types import ModuleType
from typing import Any

from playhead import endpoint


class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> endpoint.Endpoint:
        make = getattr(endpoint, self.__name__.rpartition(".")[2])
        made: endpoint.Endpoint = make(*arguments, **options)
        return made


def make_callable(package: str) -> None:
    """Make a call of the package run the function of the same name in `playhead.endpoint`."""
    sys.modules[package].__class__ = _Callable
