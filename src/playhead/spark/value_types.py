"""What Spark makes of a value of a type, by the type's JSON: a time with the date of the run, or a JVM's hash."""

from typing import Any

_TIME = "timestamp"
# Between these and a time, Spark converts without looking at its clock.
_EXACT = frozenset(
    "byte short integer long float double boolean void date timestamp timestamp_ntz".split()  # noqa: SIM905
)


def has_time(type_: Any) -> bool:
    """Return whether values of a type are times with a zone, or contain some."""
    return type_ == _TIME or any(map(has_time, _inner(type_)))


def gets_date(source: Any, target: Any) -> bool:
    """Return whether a cast may add the date of the run to a value that has none."""
    if isinstance(source, dict) and isinstance(target, dict):
        pairs = zip(_inner(source), _inner(target), strict=True)
        return any(gets_date(each, made) for each, made in pairs)
    if not has_time(target):
        return False
    return not (isinstance(source, str) and (source in _EXACT or source.startswith("decimal")))


def is_hashed(type_: Any, *, is_key: bool = False) -> bool:
    """Return whether JSON of the type has the JVM's hash of some bytes: it differs each time."""
    if is_key and type_ == "binary":
        return True
    if isinstance(type_, dict) and type_.get("type") == "map":
        key, value = _inner(type_)
        return is_hashed(key, is_key=True) or is_hashed(value)
    return any(is_hashed(each, is_key=is_key) for each in _inner(type_))


def _inner(type_: Any) -> list[Any]:
    """Return the types of which a type is made."""
    if not isinstance(type_, dict):
        return []
    fields = [field["type"] for field in type_.get("fields", ())]
    return fields + [
        type_[part] for part in ("elementType", "keyType", "valueType") if part in type_
    ]
