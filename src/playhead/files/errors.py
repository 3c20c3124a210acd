"""The errors of archives."""

from collections.abc import Sequence

from playhead.errors import PlayheadError, Refused, Unavailable
from playhead.record import Slice
from playhead.source import Bounds, OutOfBounds


class StoreUnavailable(Unavailable):
    """The object store does not answer, or not at this moment."""

    def __init__(self, where: str, *, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(
            f"cannot reach {where}: {reason}",
            hint="check the network and AWS_ENDPOINT_URL; a running replay continues by itself",
        )


class AccessDenied(PlayheadError):
    """The folder or the object store denies a necessary access."""

    def __init__(self, where: str, *, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(
            f"no access to {where}: {reason}",
            hint="check a folder's permissions; for S3, set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, use a credentials file, or AWS_NO_SIGN_REQUEST=1 "
            "for a public bucket",
        )


class NoSuchBucket(PlayheadError):
    """The bucket of an S3 address does not exist."""

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(
            f"there is no bucket for {where}",
            hint="create the bucket, or check its name, AWS_REGION and AWS_ENDPOINT_URL",
        )


class StoreFailed(PlayheadError):
    """The folder or the object store returned another error."""

    def __init__(self, where: str, *, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(f"{where}: {reason}")


class NoRoom(PlayheadError):
    """The disk, a quota or a limit is full; nothing of the present slice remains."""

    def __init__(self, where: str, *, size: int, reason: str) -> None:
        self.where, self.size, self.reason = where, size, reason
        super().__init__(
            f"no room for {size} bytes at {where}: {reason}; earlier commits are complete",
            hint="make room, then continue with `playhead resume ID`",
        )


class LinkInside(Refused):
    """A symbolic link inside an archive, which could lead anywhere."""

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(
            f"{where} is a symbolic link inside the archive, or is reached through one",
            hint="only the archive's own folder may be a link",
        )


class NotAnArchive(PlayheadError):
    """A folder that is not an archive of Playhead."""

    def __init__(self, where: str, *, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(
            f"{where} is not an archive of Playhead: {reason}",
            hint="give the folder that a replay wrote to; it contains _playhead",
        )


class OtherFormat(Refused):
    """An archive has another format than its address says."""

    def __init__(self, where: str, *, found: str, needed: str) -> None:
        self.where, self.found, self.needed = where, found, needed
        super().__init__(
            f"{where} is an archive in {found}, but the address says {needed}",
            hint=f"write {found}:{where}, or use another folder",
        )


class OtherRecords(Refused):
    """Another replay has archived other records at the same offsets."""

    def __init__(self, path: str, *, replay_id: str, other: str) -> None:
        self.path, self.replay_id, self.other = path, replay_id, other
        super().__init__(
            f"replay {replay_id} would replace {path}, where replay {other} has archived other records",
            hint="use a separate folder for each selection",
        )


class SeveralTopics(Refused):
    """An archive has records of several topics under one name."""

    def __init__(self, where: str, *, topic: str, origins: Sequence[str]) -> None:
        self.where, self.topic, self.origins = where, topic, tuple(origins)
        super().__init__(
            f"{where} has records of several topics with the name {topic}: {'; '.join(origins)}",
            hint="move the ledgers of all but one topic, _playhead/replay=ID, out of the archive; their "
            "data files are not read without them",
        )


class AnotherTopic(Refused):
    """An archive has records of another topic with the same name."""

    def __init__(self, where: str, *, topic: str, found: str, needed: str) -> None:
        self.where, self.topic, self.found, self.needed = where, topic, found, needed
        super().__init__(
            f"{where} has records of another topic {topic}, by {found}; the topic to archive has the id "
            f"{needed}: it was created again, or is on another cluster",
            hint="use a separate folder for each topic",
        )


class Damaged(PlayheadError):
    """A file of an archive has changed since it was written."""

    def __init__(self, path: str, *, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"{path} is damaged: {reason}",
            hint="restore the file from a copy, or replay these offsets into a new archive",
        )


class ArchiveGap(OutOfBounds):
    """Offsets to read were not archived by any replay."""

    def __init__(self, slice_: Slice, bounds: Bounds, *, gap: Slice) -> None:
        super().__init__(slice_, bounds)
        self.gap = gap
        self.message = f"cannot read {slice_}: {gap} was not archived"
        self.hint = (
            "archive the missing offsets into the same folder, or read those before and after"
        )
