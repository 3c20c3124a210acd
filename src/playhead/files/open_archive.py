"""Parses the root and the format of an archive, and opens it."""

import re
from pathlib import Path
from typing import get_args

from playhead.errors import BadValue
from playhead.files.archive import Archive
from playhead.files.codec import Codec
from playhead.files.file_names import Format
from playhead.files.formats.csv_format import CsvCodec
from playhead.files.formats.jsonl import JsonCodec
from playhead.files.formats.parquet import ParquetCodec
from playhead.files.stores.local import LocalStore
from playhead.files.stores.s3 import S3Store
from playhead.host import paths

_S3 = ("s3://", "s3a://")
_FILE = "file://"
_BUCKET = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,253}[A-Za-z0-9])?", re.ASCII)


def settled(root: str) -> str:
    """Return the root in a form that every process understands: absolute, or an s3:// address."""
    for scheme in _S3:
        if root.startswith(scheme):
            bucket, _, prefix = root[len(scheme) :].partition("/")
            # Doubled slashes name a different object in S3, but the same folder in a file system.
            parts = [*filter(None, prefix.split("/"))]
            # The client library would take `..` for another bucket, and `?` for a query.
            if not _BUCKET.fullmatch(bucket) or ".." in bucket:
                needed = "s3://BUCKET/PREFIX, a bucket of letters, digits, '.', '_' and '-'"
                raise BadValue("root", found=root, needed=needed, where="an archive")
            if {".", ".."} & {*parts} or "\0" in prefix:
                needed = "a prefix without the parts . and .., and without NUL"
                raise BadValue("root", found=root, needed=needed, where="an archive")
            return "/".join(["s3:/", bucket, *parts])
    local = root.removeprefix(_FILE)
    if not local or "://" in local or "\0" in local:
        raise BadValue(
            "root", found=root, needed="a folder, or s3://BUCKET/PREFIX", where="an archive"
        )
    return str(paths.at_home(local).resolve())


def checked_format(format_: str) -> Format:
    """Check the format's name."""
    formats: tuple[Format, ...] = get_args(Format)
    for each in formats:
        if each == format_:
            return each
    raise BadValue("format", found=format_, needed=" or ".join(formats), where="an archive")


def archive_of(root: str, format_: Format) -> Archive:
    """Return the archive at such a root."""
    store = S3Store.at(root) if root.startswith("s3://") else LocalStore(Path(root))
    codecs: dict[Format, Codec] = {
        "parquet": ParquetCodec(),
        "json": JsonCodec(),
        "csv": CsvCodec(),
    }
    return Archive(store, codecs[format_])
