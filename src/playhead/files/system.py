"""The row of archives in the table of systems: how endpoints are written, the source and the target."""

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from playhead.config.context import Configuration
from playhead.endpoint import BadEndpoint, Endpoint
from playhead.host import paths
from playhead.request import ReplaySpec
from playhead.source import Source
from playhead.systems import MakesSource, MakesTarget, System
from playhead.target import Target

if TYPE_CHECKING:
    from playhead.files.file_names import Format

FORMATS = ("parquet", "json", "csv")


class FilesSystem(System, MakesSource, MakesTarget):
    """Archives in a folder or in S3; the scheme is their format."""

    kind = "archive"
    examples: ClassVar = {name: f"{name}:FOLDER or {name}:s3://BUCKET/PREFIX" for name in FORMATS}

    def parse(self, text: str, scheme: str, rest: str) -> Endpoint:
        if not rest:
            raise BadEndpoint(text, reason="it names no folder", hint=self.examples[scheme])
        return Endpoint(scheme, rest)

    def from_anywhere(self, end: Endpoint) -> Endpoint:
        if "://" in end.name:
            return end
        return replace(end, name=str(paths.at_home(end.name).absolute()))

    def source(self, end: Endpoint, _spec: ReplaySpec, _configuration: Configuration) -> Source:
        from playhead.files.source import FilesSource

        return FilesSource(end.name, cast("Format", end.system))

    def target(self, end: Endpoint, spec: ReplaySpec, _configuration: Configuration) -> Target:
        from playhead.files.target import FilesTarget

        return FilesTarget(end.name, cast("Format", end.system), typed=spec.archive.typed)


SYSTEM = FilesSystem()
