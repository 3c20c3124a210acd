"""Archives in a real S3 server."""

import threading
import time
from dataclasses import replace

import pytest
from pyarrow import fs

from playhead.account import Account
from playhead.errors import Unavailable
from playhead.files.errors import AccessDenied, NoSuchBucket, StoreUnavailable
from playhead.files.source import FilesSource
from playhead.files.stores import s3 as s3_files
from playhead.files.target import FilesTarget
from playhead.record import Slice
from playhead.records import Records
from playhead.sandbox.folder import free_port
from playhead.testing import LinkProxy, exercise_source, exercise_target, sample_records
from playhead.testing.target_case import look, terms
from tests.fix_archives import archive, commit, everything, writing
from tests.fix_s3 import READER_KEY, READER_SECRET, S3Server


def test_source(bucket: str) -> None:
    root = f"s3://{bucket}/deep/archive"
    archive(root)
    exercise_source(lambda: FilesSource(root), sample_records())


def test_target(bucket: str, s3: S3Server) -> None:
    root = f"s3://{bucket}/deep/archive"

    def damage() -> None:
        files = s3.filesystem()
        found = files.get_file_info(fs.FileSelector(f"{bucket}/deep", recursive=True))
        data = [each for each in found if each.path.endswith(".parquet")]
        last = max(data, key=lambda each: each.path)
        with files.open_output_stream(last.path) as file:
            file.write(b"spoilt")

    exercise_target(
        lambda: FilesTarget(root),
        lambda: everything(root),
        replaces=True,
        exclusive=False,
        bad_record=replace(sample_records()[0], headers=(("\ud800", b""),)),
        damage=damage,
    )


@pytest.mark.parametrize("format_", ["json", "csv"])
def test_the_other_formats(bucket: str, format_: str) -> None:
    archive(f"s3://{bucket}", format_)
    assert everything(f"s3://{bucket}", format_) == sample_records()


def test_an_object_of_many_parts(bucket: str) -> None:
    root = f"s3://{bucket}/big"
    import random

    values = [random.Random(n).randbytes(1_000_000) for n in range(30)]
    count = len(values)
    records = Records("t", 0, list(range(count)), [5] * count, [0] * count, [None] * count, values)
    records.headers = [()] * count
    account = Account(Slice("t", 0, 0, count))
    account.read = count
    with writing(FilesTarget(root), "r") as writer:
        writer.commit(account, [records])
    with FilesSource(root).open() as reader:
        assert Records.of(r for run in reader.read(account.slice) for r in run) == records


def test_identities_are_one_however_written(bucket: str) -> None:
    archive(f"s3a://{bucket}//a/b/")
    assert FilesSource(f"s3://{bucket}/a/b").facts().identity == f"s3://{bucket}/a/b"
    assert FilesTarget(f"s3://{bucket}/a/b").inspect(look()).identity == f"s3://{bucket}/a/b"


def test_a_bucket_that_is_not_there(s3: S3Server) -> None:
    with pytest.raises(NoSuchBucket, match="no bucket for s3://nobody-made-this/x"):
        FilesTarget("s3://nobody-made-this/x").inspect(look())


def test_somebody_who_may_only_read(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = f"s3://{bucket}/a"
    archive(root)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", READER_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", READER_SECRET)
    assert everything(root) == sample_records()
    with (
        FilesTarget(root).open("one") as writer,
        pytest.raises(AccessDenied, match=f"{root}/to"),
    ):
        commit(writer, Slice("contract", 2, 0, 1), [replace(sample_records()[0], partition=2)])
    with pytest.raises(AccessDenied):
        FilesTarget(f"s3://{bucket}/b").prepare("other", FilesTarget(root).inspect(look()), terms())


@pytest.mark.parametrize(
    "wrong", [{"AWS_SECRET_ACCESS_KEY": "wrong"}, {"AWS_NO_SIGN_REQUEST": "1"}], ids=str
)
def test_wrong_credentials(bucket: str, wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(f"s3://{bucket}/a")
    for name, value in wrong.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(AccessDenied) as caught:
        FilesSource(f"s3://{bucket}/a").bounds()
    assert "AWS_ACCESS_KEY_ID" in caught.value.hint


def test_a_server_that_is_away(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(StoreUnavailable, match=f"cannot reach s3://{bucket}") as caught:
        FilesSource(f"s3://{bucket}/a").bounds()
    assert isinstance(caught.value, Unavailable)


@pytest.fixture
def link(s3: S3Server, monkeypatch: pytest.MonkeyPatch):
    with LinkProxy("127.0.0.1", s3.port) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{proxy.address}")
        yield proxy


@pytest.mark.parametrize("after_bytes", [0, 300, 100_000, 8_000_000, 16_000_000])
def test_a_link_that_breaks_in_an_upload(
    bucket: str, link: LinkProxy, s3: S3Server, after_bytes: int
) -> None:
    """Nothing is torn: the data file is there as a whole or not at all, and the same again works."""
    import random

    root = f"s3://{bucket}/a"
    values = [random.Random(n).randbytes(1_000_000) for n in range(20)]
    count = len(values)
    records = Records("t", 0, list(range(count)), [5] * count, [0] * count, [None] * count, values)
    records.headers = [()] * count

    def account() -> Account:
        made = Account(Slice("t", 0, 0, count))
        made.read = count
        return made

    target = FilesTarget(root)
    with writing(target, "r") as writer:
        cutter = threading.Thread(target=_cut_after, args=(link, after_bytes))
        cutter.start()
        with pytest.raises(Unavailable):
            writer.commit(account(), [records])
        cutter.join()
    link.restore()
    assert target.entries("r") == []
    with writing(target, "r") as writer:
        writer.commit(account(), [records])
    with FilesSource(root).open() as reader:
        assert Records.of(r for run in reader.read(account().slice) for r in run) == records


def _cut_after(link: LinkProxy, n_bytes: int) -> None:
    start, deadline = link.bytes_up, time.monotonic() + 30
    while link.bytes_up - start < n_bytes and time.monotonic() < deadline:
        time.sleep(0.001)
    link.cut()


def test_a_link_that_stalls(bucket: str, link: LinkProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_files, "_REQUEST_S", 1.0)
    archive(f"s3://{bucket}/a")
    link.stall()
    start = time.monotonic()
    with pytest.raises(StoreUnavailable):
        FilesSource(f"s3://{bucket}/a").bounds()
    assert time.monotonic() - start < 30
