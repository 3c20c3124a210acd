"""The row of PostgreSQL in the table of systems: how its endpoints are written, and its target."""

from typing import ClassVar, cast
from urllib.parse import quote, unquote

from playhead import references
from playhead.config.context import Configuration
from playhead.endpoint import BadEndpoint, Endpoint
from playhead.request import ReplaySpec
from playhead.systems import MakesTarget, System
from playhead.target import Target

_EXAMPLE = "postgres:SCHEMA.TABLE, postgres:TABLE or postgresql://…?table=SCHEMA.TABLE"


class PostgresSystem(System, MakesTarget):
    """Tables of the configured database, or of the one at a URL."""

    kind = "table"
    examples: ClassVar = {"postgres": _EXAMPLE}
    is_live_target = True

    def parse(self, text: str, scheme: str, rest: str) -> Endpoint:
        if not rest.startswith("//"):
            if not rest:
                raise BadEndpoint(text, reason="it names no table", hint=_EXAMPLE)
            return Endpoint("postgres", rest)
        # Parsed by hand: everything but the table must reach libpq unchanged.
        address, _, query = f"{scheme}:{rest}".partition("?")
        parameters = [each for each in query.split("&") if each]
        tables = [each for each in parameters if each.startswith("table=")]
        if len(tables) != 1 or tables[0] == "table=":
            reason = "a database's URL needs one table=NAME in its query"
            raise BadEndpoint(text, reason=reason, hint=_EXAMPLE)
        parameters.remove(tables[0])
        if parameters:
            address += "?" + "&".join(parameters)
        return Endpoint("postgres", unquote(tables[0].removeprefix("table=")), address)

    def text(self, end: Endpoint) -> str:
        if not end.address:
            return super().text(end)
        glue = "&" if "?" in end.address else "?"
        return f"{end.address}{glue}table={quote(end.name, safe='{}')}"

    def target(self, end: Endpoint, spec: ReplaySpec, configuration: Configuration) -> Target:
        from playhead.postgres.merge_sql import Rule
        from playhead.postgres.target import PostgresTarget

        url = (
            references.resolve(end.address, key="the target", where="its address")
            if end.address
            else configuration.need("database", needed_for=end.shown())
        )
        rules = spec.table
        return PostgresTarget(
            url,
            end.name,
            key=rules.key or None,
            on_conflict=cast("Rule | None", rules.on_conflict),
            version_column=rules.version_column,
            tombstones=rules.tombstones,
            decode=rules.form,
            create=rules.create,
            extra_fields=rules.extra_fields,
        )


SYSTEM = PostgresSystem()
