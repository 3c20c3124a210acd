"""The row of SQLite in the table of systems: how its endpoints are written, and its target."""

from dataclasses import replace
from typing import ClassVar
from urllib.parse import quote, unquote

from playhead.config.context import Configuration
from playhead.endpoint import BadEndpoint, Endpoint
from playhead.host import paths
from playhead.request import ReplaySpec
from playhead.systems import MakesTarget, System
from playhead.target import Target


class SqliteSystem(System, MakesTarget):
    """A table of a database file; the file is the endpoint's address."""

    kind = "table"
    examples: ClassVar = {"sqlite": "sqlite:FILE?table=TABLE"}

    def parse(self, text: str, scheme: str, rest: str) -> Endpoint:
        file, _, table = rest.rpartition("?table=")
        if not file or not table:
            reason = "it needs a file and ?table=NAME"
            raise BadEndpoint(text, reason=reason, hint=self.examples[scheme])
        return Endpoint(scheme, unquote(table), file)

    def text(self, end: Endpoint) -> str:
        return f"sqlite:{end.address}?table={quote(end.name, safe='{}')}"

    def from_anywhere(self, end: Endpoint) -> Endpoint:
        return replace(end, address=str(paths.at_home(end.address or "").absolute()))

    def target(self, end: Endpoint, spec: ReplaySpec, _configuration: Configuration) -> Target:
        from playhead.sqlite.target import SqliteTarget

        return SqliteTarget(end.address or "", end.name, spec.table)


SYSTEM = SqliteSystem()
