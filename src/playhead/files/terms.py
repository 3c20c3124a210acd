"""The terms of replays in an archive: one file beside each ledger, written before the first slice."""

import hashlib
from collections.abc import Sequence

from playhead.files import file_names
from playhead.files.archive import Archive
from playhead.files.stores.store import read_each
from playhead.host.faults import abort_point
from playhead.note import Note
from playhead.terms import (
    NotBegunThere,
    OtherTerms,
    Terms,
    agreed,
    differing,
    terms_at,
    without_terms,
)


def kept_terms(archive: Archive, replay_id: str) -> Terms | None:
    """Return the terms of a replay; None if it has none.

    If several differ, those that a writer confirmed count; the others' writers were refused or died before.
    Without a confirmation they are refused.
    """
    every = _all(archive, replay_id)
    found = [terms for terms, is_agreed in every if is_agreed] or [terms for terms, _ in every]
    for other in found[1:]:
        if differences := differing(found[0], other):
            raise OtherTerms(replay_id, differences=[f"it has several: {differences[0]}"])
    return found[0] if found else None


def need_terms(archive: Archive, replay_id: str) -> None:
    """Refuse another folder or bucket under this name: `prepare` has written terms into the first one."""
    if not archive.is_there() or kept_terms(archive, replay_id) is None:
        raise NotBegunThere(replay_id, where=archive.store.identity)


def agree(archive: Archive, replay_id: str, wanted: Terms) -> Sequence[Note]:
    """Write the terms, or refuse different ones.

    On a local disk a lock excludes others. Elsewhere each writer writes a file with its own name and reads
    again: one that sees other terms takes its own back, so that two never both continue. One that sees none
    confirms its terms in a file; otherwise a writer that died before taking its own back would stop them all.
    """
    folder = file_names.replay_folder(replay_id)
    with archive.store.alone(folder):
        kept = kept_terms(archive, replay_id)
        if kept is not None:
            agreed(replay_id, kept, wanted)
            _go_on(archive, _path(replay_id, kept))
            return ()
        is_old = bool(archive.entry_names(folder))
        path = _path(replay_id, wanted)
        abort_point("files.before_terms")
        archive.store.publish(
            path, [wanted.as_json().encode()], aside=lambda: abort_point("files.terms_aside")
        )
        abort_point("files.terms_written")
        for other, _ in _all(archive, replay_id):
            if differences := differing(other, wanted):
                archive.store.remove(path)
                raise OtherTerms(replay_id, differences=differences)
        _go_on(archive, path)
    return (without_terms(replay_id),) if is_old else ()


def _path(replay_id: str, terms: Terms) -> str:
    return file_names.terms_path(replay_id, hashlib.sha256(terms.as_json().encode()).hexdigest())


def _go_on(archive: Archive, path: str) -> None:
    """Confirm these terms, once."""
    agreed_path = file_names.agreed_path(path)
    if archive.store.read(agreed_path) is None:
        archive.store.publish(agreed_path, [b"{}"])
        abort_point("files.terms_agreed")


def _all(archive: Archive, replay_id: str) -> list[tuple[Terms, bool]]:
    """Return the terms in all files, sorted by name, and whether they were confirmed."""
    there = {*archive.store.files(file_names.replay_folder(replay_id))}
    paths = sorted(filter(file_names.is_terms, there))
    texts = read_each(archive.store, paths)
    return [
        (
            terms_at(replay_id, f"{archive.store.identity}/{path}", text),
            file_names.agreed_path(path) in there,
        )
        for path, text in zip(paths, texts, strict=True)
        if text is not None
    ]
