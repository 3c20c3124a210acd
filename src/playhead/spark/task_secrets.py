"""Passes data to tasks, so that no job that an engine stores or sends contains a password.

On this machine it is a file that only this user can read, deleted after the job. On other machines tasks
cannot see our files: there everything travels in the job, and the cluster must protect it.
"""

import pickle
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from playhead.config.kafka_properties import BY_SPELLING
from playhead.host import private_files
from playhead.spark import session
from playhead.spark.engine_folder import expect_no_colon

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Work = Callable[["Iterator[pa.RecordBatch]"], "Iterator[pa.RecordBatch]"]
_PROVIDER = "playhead"
_PROVIDERS = {
    "config.providers": _PROVIDER,
    f"config.providers.{_PROVIDER}.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}


@dataclass(frozen=True, slots=True)
class Handover:
    """The folder for files for tasks; None if tasks cannot see ours."""

    folder: Path | None

    def task(self, task: Work) -> Work:
        """Return what the job carries in place of the task."""
        if self.folder is None:
            return task
        from pyspark import cloudpickle

        file = self.folder / uuid4().hex
        with private_files.opened(file, "wb") as stream:
            stream.write(cloudpickle.dumps(task))
        return _Handed(str(file))

    def kafka(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return a Java client's configuration, with secrets replaced by references to their files.

        So is a text that looks like such a reference: Kafka would read the file that it names.
        """
        secret = {key: text for key, text in properties.items() if _is_secret(key) or "${" in text}
        if self.folder is None or not secret:
            return dict(properties)
        expect_no_colon(self.folder)
        file = self.folder / uuid4().hex
        private_files.write(
            file, "".join(f"{key}={_escaped(text)}\n" for key, text in secret.items())
        )
        referred = {key: f"${{{_PROVIDER}:{file}:{key}}}" for key in secret}
        return dict(properties) | referred | _PROVIDERS


@contextmanager
def handing(spark: "SparkSession") -> Iterator[Handover]:
    """Yield a handover whose files exist until the end of the block."""
    if not session.tasks_are_ours(spark):
        yield Handover(None)
        return
    with tempfile.TemporaryDirectory(
        prefix="playhead-tasks-", dir=session.own_folder(), ignore_cleanup_errors=True
    ) as folder:
        yield Handover(Path(folder))


class _Handed:
    """A task in a file."""

    def __init__(self, file: str) -> None:
        self._file = file

    def __call__(self, parts: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        task: Any = pickle.loads(Path(self._file).read_bytes())  # noqa: S301  only we could write it
        yield from task(parts)


def _is_secret(key: str) -> bool:
    row = BY_SPELLING.get(key)
    return row is None or row.secret or key == "sasl.jaas.config"


def _escaped(text: str) -> str:
    """Escape a value for a Java properties file."""

    def code(match: re.Match[str]) -> str:
        units = match[0].encode("utf-16-be")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

    return re.sub(r"[^A-Za-z0-9]", code, text)
