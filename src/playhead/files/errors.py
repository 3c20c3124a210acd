"""What can go wrong with an archive, told in our words."""

from playhead.errors import PlayheadError, Refused, Unavailable
from playhead.record import Slice
from playhead.source import Bounds, OutOfBounds


class StoreUnavailable(Unavailable):
    """The object store does not answer, or not now."""

    def __init__(self, where: str, *, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(
            f"cannot reach {where}: {reason}",
            hint="check the link and AWS_ENDPOINT_URL; a replay goes on by itself when it is back",
        )


class AccessDenied(PlayheadError):
    """The folder or the object store lets us do less than is needed."""

    def __init__(self, where: str, *, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(
            f"no access to {where}: {reason}",
            hint="a folder needs its permissions; S3 needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "a credentials file, or AWS_NO_SIGN_REQUEST=1 for a public bucket",
        )


class NoSuchBucket(PlayheadError):
    """The bucket of an S3 address is not there."""

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(
            f"there is no bucket for {where}",
            hint="make the bucket first, or check its name, AWS_REGION and AWS_ENDPOINT_URL",
        )


class StoreFailed(PlayheadError):
    """The folder or the object store answered with an error of its own."""

    def __init__(self, where: str, *, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(f"{where}: {reason}")


class NoRoom(PlayheadError):
    """The disk, a quota or a limit is full; the slice at hand left nothing."""

    def __init__(self, where: str, *, size: int, reason: str) -> None:
        self.where, self.size, self.reason = where, size, reason
        super().__init__(
            f"no room for {size} bytes at {where}: {reason}; what was committed before is whole",
            hint="make room, then `playhead resume ID` goes on from the ledger",
        )


class LinkInside(Refused):
    """A symbolic link inside an archive, which may lead anywhere."""

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(
            f"{where} is, or is reached by, a symbolic link inside the archive",
            hint="the archive's own folder may be a link; what lies inside must not",
        )


class NotAnArchive(PlayheadError):
    """A folder that Playhead did not write."""

    def __init__(self, where: str, *, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(
            f"{where} is no archive of Playhead: {reason}",
            hint="give the folder that a replay wrote to, the one with _playhead in it",
        )


class OtherFormat(Refused):
    """An archive of one format was addressed as another."""

    def __init__(self, where: str, *, found: str, needed: str) -> None:
        self.where, self.found, self.needed = where, found, needed
        super().__init__(
            f"{where} is an archive in {found}, not in {needed}",
            hint=f"write {found}:{where}, or take another folder",
        )


class OtherRecords(Refused):
    """Another replay has archived other records under the very same offsets."""

    def __init__(self, path: str, *, replay_id: str, other: str) -> None:
        self.path, self.replay_id, self.other = path, replay_id, other
        super().__init__(
            f"replay {replay_id} would replace {path}, in which replay {other} keeps other records",
            hint="give each selection a folder of its own",
        )


class Damaged(PlayheadError):
    """A file of an archive is not as it was written."""

    def __init__(self, path: str, *, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"{path} is damaged: {reason}",
            hint="bring the file back from a copy, or replay these offsets into a new archive",
        )


class ArchiveGap(OutOfBounds):
    """Offsets that no replay has archived lie inside what is to be read."""

    def __init__(self, slice_: Slice, bounds: Bounds, *, gap: Slice) -> None:
        super().__init__(slice_, bounds)
        self.gap = gap
        self.message = f"cannot read {slice_}: nothing was archived of {gap}"
        self.hint = (
            "archive what is missing into the same folder, or read what lies before and after"
        )
