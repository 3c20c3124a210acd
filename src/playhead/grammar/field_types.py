"""Checks the types of a dataclass that was read from a file, so that wrong types fail early."""

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

# What we write is a tenth as deep; Python gives up at a few hundred.
_DEEPEST = 200
# Every number of ours has 64 bits; with hundreds of digits, arithmetic and texts fail.
_NUMBERS = range(-(2**63), 2**63)


def need_kinds(held: Any, where: str) -> None:
    """Raise TypeError for the first field, at any depth, whose value has another type than declared."""
    kind: Any = type(held)
    hints = _hints(kind)
    for field in fields(held):
        name = f"{where}.{field.name}"
        value = getattr(held, field.name)
        if not _fits(value, hints[field.name], name):
            raise TypeError(f"{name} is {_cut(value)}; needed: {_shown(hints[field.name])}")


def need_shallow(document: Any) -> None:
    """Raise ValueError for a document that a function which calls itself could not follow to its end."""
    level = [document]
    for _ in range(_DEEPEST):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return
    raise ValueError(f"it is nested more than {_DEEPEST} deep")


def _inside(held: Any) -> Iterable[Any]:
    if isinstance(held, Mapping):
        return held.values()
    return held if isinstance(held, list | tuple) else ()


def _fits(value: Any, hint: Any, where: str) -> bool:
    origin, inner = _parts(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, each, where) for each in inner)
    if origin is Literal:
        return any(value == each and type(value) is type(each) for each in inner)
    if origin in (tuple, list, Sequence):
        return _fits_all(value, origin, inner, where)
    if origin in (dict, Mapping):
        is_map = isinstance(value, Mapping)
        return is_map and all(
            _fits(name, inner[0], where) and _fits(each, inner[1], f"{where}.{name!s:.60}")
            for name, each in value.items()
        )
    if hint is float or hint is int:
        is_whole = type(value) is int and value in _NUMBERS
        return is_whole or (hint is float and type(value) is float)
    if hint is bool:
        return type(value) is bool
    if hint is Any or not isinstance(hint, type):
        return True
    if is_dataclass(hint) and isinstance(value, hint):
        need_kinds(value, where)
    return isinstance(value, hint)


def _fits_all(value: Any, origin: Any, inner: tuple[Any, ...], where: str) -> bool:
    is_list = isinstance(value, tuple) if origin is tuple else isinstance(value, list | tuple)
    if not is_list:
        return False
    if origin is tuple and inner[-1:] != (Ellipsis,):
        return len(value) == len(inner) and all(
            _fits(each, hint, where) for each, hint in zip(value, inner, strict=True)
        )
    return all(_fits(each, inner[0], f"{where}[{n}]") for n, each in enumerate(value))


@cache
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(hint), get_args(hint)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _cut(value: Any) -> str:
    is_large = type(value) is int and value not in _NUMBERS
    return "a number of more than 64 bits" if is_large else f"{value!r:.60}"


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
