"""The same answers at less cost: a schedule takes milliseconds, and asks the same things often."""

import contextlib
import copy
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, wraps
from json.encoder import c_make_encoder, encode_basestring, encode_basestring_ascii
from types import SimpleNamespace
from typing import Any

_ATOMS = frozenset({str, int, float, bool, bytes, type(None)})


# --- before any module of the product is loaded


def load_lightly() -> None:
    """What the standard library makes for the product's modules does the same, and costs less."""
    real = dataclasses.dataclass

    def dataclass(cls: Any = None, /, **how: Any) -> Any:
        if cls is None:
            return lambda it: dataclass(it, **how)
        return real(cls, **(_thawed(cls, how) if _is_ours(cls) else how))

    contextlib.contextmanager = _manager_of(contextlib.contextmanager)
    dataclasses.dataclass = dataclass  # type: ignore[assignment]
    dataclasses.asdict, dataclasses.replace = _as_dict, _replaced  # type: ignore[assignment]


def _is_ours(it: Any) -> bool:
    return bool(it.__module__.startswith(("playhead.", "simulation.")))


def _thawed(cls: Any, how: dict[str, Any]) -> dict[str, Any]:
    """A frozen class sets each field by a call; without that it is as equal, and hashed alike."""
    if not how.get("frozen"):
        return how
    has_hash = not how.get("eq", True) or "__hash__" in cls.__dict__
    return {**how, "frozen": False, "unsafe_hash": not has_hash}


class _Entered(contextlib._GeneratorContextManager):  # type: ignore[type-arg]
    """One `with` of a generator; only what goes wrong takes the long way."""

    def __init__(self, work: Any, args: Any, named: Any) -> None:
        self.func, self.args, self.kwds = work, args, named  # to begin again, as a decorator does
        self.gen = work(*args, **named)

    def __enter__(self) -> Any:
        return next(self.gen)

    def __exit__(self, kind: Any, exc: Any, at: Any) -> Any:
        if kind is None:
            if next(self.gen, self) is not self:
                raise RuntimeError("generator didn't stop")
            return False
        return super().__exit__(kind, exc, at)


def _manager_of(real: Any) -> Any:
    def contextmanager(work: Any) -> Any:
        @wraps(work)
        def entered(*args: Any, **named: Any) -> _Entered:
            return _Entered(work, args, named)

        return entered if _is_ours(work) else real(work)

    return contextmanager


def _as_dict(it: Any) -> dict[str, Any]:
    """A dataclass with all that is in it; only lists and the like are copied."""
    found = {name: getattr(it, name) for name in _names(type(it)) or ()}
    for name, held in found.items():
        if type(held) not in _ATOMS:
            found[name] = _plain(held)
    return found


def _replaced(it: Any, /, **changes: Any) -> Any:
    kind = type(it)
    given = {name: getattr(it, name) for name in _given(kind) if name not in changes}
    return kind(**given, **changes)


def _plain(held: Any) -> Any:
    kind = type(held)
    if kind in _ATOMS:
        return held
    if kind is tuple or kind is list:
        return kind([each if type(each) in _ATOMS else _plain(each) for each in held])
    if kind is dict:
        return {
            name if type(name) in _ATOMS else _plain(name): _plain(each)
            for name, each in held.items()
        }
    if hasattr(kind, "_fields"):
        return kind(*map(_plain, held))
    return copy.deepcopy(held) if _names(kind) is None else _as_dict(held)


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    if not dataclasses.is_dataclass(kind):
        return None
    return tuple(each.name for each in dataclasses.fields(kind))


@cache
def _given(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in dataclasses.fields(kind) if each.init)


# --- the product's own functions


def remember(owner: Any, *names: str) -> None:
    """These give for the same texts what never changes; so they are asked once."""
    for name in names:
        held = owner.__dict__[name]
        if isinstance(held, classmethod):
            setattr(owner, name, classmethod(lru_cache(maxsize=512)(held.__func__)))
            continue
        kept = lru_cache(maxsize=512)(held)
        for module in [owner, *sys.modules.values()]:
            # Others have imported it by its name.
            if vars(module).get(name) is held:
                setattr(module, name, kept)


_said: dict[tuple[Any, ...], tuple[Any, Any]] = {}


def keep(owner: Any, *names: str) -> None:
    """What one of these says of itself once it says again: it never changes."""
    for name in names:
        setattr(owner, name, _kept(name, getattr(owner, name)))


def forget() -> None:
    """Of the schedule before."""
    _said.clear()


def _kept(name: str, work: Callable[..., Any]) -> Any:
    def again(self: Any, *asked: Any) -> Any:
        key = (id(self), name, asked)
        found = _said.get(key)
        if found is None or found[0] is not self:
            found = _said[key] = (self, work(self, *asked))
        return dict(found[1]) if type(found[1]) is dict else found[1]

    return again


@cache
def _encoder(*how: tuple[str, Any]) -> Callable[[Any, int], Sequence[str]]:
    """What `json.dumps` makes anew for each document."""
    it = json.JSONEncoder(**dict(how))
    quoted = encode_basestring_ascii if it.ensure_ascii else encode_basestring
    separators, rest = (it.key_separator, it.item_separator), (it.sort_keys, it.skipkeys)
    return c_make_encoder(None, it.default, quoted, None, *separators, *rest, it.allow_nan)  # type: ignore[no-any-return, misc]


def _dumps(document: Any, *, indent: Any = None, **how: Any) -> str:
    # What is set for reading would be written by what is slow.
    return "".join(_encoder(*how.items())(document, 0))


_DECODER = json.JSONDecoder()


def _loads(text: Any, **how: Any) -> Any:
    """At once what is a document and nothing else; all the rest takes the long way."""
    if type(text) is str and not how:
        try:
            document, end = _DECODER.scan_once(text, 0)
        except StopIteration:
            end = -1
        if end == len(text):
            return document
    return json.loads(text, **how)


JSON = SimpleNamespace(**{**vars(json), "dumps": _dumps, "loads": _loads})
