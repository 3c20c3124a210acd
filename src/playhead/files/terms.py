"""The terms of replays in an archive: one file beside each ledger, written before the first slice."""

import hashlib
from collections.abc import Sequence

from playhead.faults import abort_point
from playhead.files import names
from playhead.files.archive import Archive
from playhead.ledger import UNREADABLE
from playhead.note import Note
from playhead.terms import OtherTerms, Terms, UnknownTerms, agreed, differing, without_terms


def kept_terms(archive: Archive, replay_id: str) -> Terms | None:
    """The terms of a replay; None when it has none. Several are refused, unless they say the same."""
    found = _all(archive, replay_id)
    if not found:
        return None
    for other in found[1:]:
        if differences := differing(found[0], other):
            raise OtherTerms(replay_id, differences=[f"it has several: {differences[0]}"])
    return found[0]


def agree(archive: Archive, replay_id: str, wanted: Terms) -> Sequence[Note]:
    """Write the terms, or refuse other ones.

    On a local disk nobody else comes in between. Elsewhere each writes a file of its own name and
    looks again: who sees other terms beside its own takes them back, so that never do two go on.
    """
    folder = names.replay_folder(replay_id)
    with archive.store.alone(folder):
        kept = kept_terms(archive, replay_id)
        if kept is not None:
            agreed(replay_id, kept, wanted)
            return ()
        is_old = bool(archive.entry_names(folder))
        data = wanted.as_json().encode()
        path = names.terms_path(replay_id, hashlib.sha256(data).hexdigest())
        abort_point("files.before_terms")
        archive.store.publish(path, [data], aside=lambda: abort_point("files.terms_aside"))
        abort_point("files.terms_written")
        for other in _all(archive, replay_id):
            if differences := differing(other, wanted):
                archive.store.remove(path)
                raise OtherTerms(replay_id, differences=differences)
    return (without_terms(replay_id),) if is_old else ()


def _all(archive: Archive, replay_id: str) -> list[Terms]:
    """What the files say, in the order of their names."""
    folder = names.replay_folder(replay_id)
    paths = sorted(filter(names.is_terms, archive.store.files(folder)))
    texts = archive.store.read_all(paths)
    found = []
    for path, text in zip(paths, texts, strict=True):
        try:
            found += [] if text is None else [Terms.from_json(text)]
        except UNREADABLE as exc:
            where = f"{archive.store.identity}/{path}"
            raise UnknownTerms(replay_id, where=where, reason=str(exc)) from exc
    return found
