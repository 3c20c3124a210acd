"""Lets a package be called by its own name: `kafka("orders")` is an endpoint, `playhead.kafka` the package.

The sentence wants `Replay(source=kafka("orders"), …)`, and the tree wants a folder of that name; Python
has one attribute for both, and importing anything below the folder would put the folder there.
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
    """Have the package, when called, do what the function of its name in `playhead.endpoint` does."""
    sys.modules[package].__class__ = _Callable
