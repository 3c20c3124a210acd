"""What was asked for: one replay's options, as they were written, so that they can be saved and run again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from playhead.endpoint import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The sentence: source, span, transform, target, pace, and the rules. Texts are in the grammars' forms.

    Nothing secret is in it: servers are named by the configuration, or by an address without a password.
    """

    source: str
    target: str
    span: str = "start..end"
    lateness_ms: int = 600_000
    where: str | None = None
    select: str | None = None
    pace: str = "max"
    max_gap_ms: int | None = None
    key: tuple[str, ...] = ()
    on_conflict: str | None = None
    version_column: str | None = None
    tombstones: str | None = None
    on_error: str = "fail"
    decode: str = "json"
    create: bool = False
    headers: tuple[str, ...] = ()
    provenance: bool = False
    partition: str = "auto"
    redrive: bool = False
    typed: bool = False

    @property
    def source_endpoint(self) -> Endpoint:
        return Endpoint.parse(self.source)

    @property
    def target_endpoint(self) -> Endpoint:
        return Endpoint.parse(self.target)

    def as_document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Request":
        known = {field.name for field in fields(cls)}
        unknown = set(document) - known
        if unknown:
            raise ValueError(f"unknown {', '.join(sorted(unknown))}")
        values: dict[str, Any] = dict(document)
        values |= {name: tuple(values.get(name, ())) for name in ("key", "headers")}
        return cls(**values)
