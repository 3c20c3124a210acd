"""The contract of a target for the terms of a replay: it keeps the first ones and refuses all others."""

import pickle
from dataclasses import replace

from playhead.errors import EXIT_REFUSED
from playhead.target import Target
from playhead.terms import NO_TERMS, NotBegunThere, OtherTerms, Terms
from playhead.testing.target_case import (
    Case,
    MakeTarget,
    Onlooker,
    assert_ledger,
    commit_alone,
    look,
    terms,
)


def _keeps_its_terms(make_target: MakeTarget, onlooker: Onlooker) -> None:
    """The terms exist before the first commit and stay; no other replay has them."""
    case = Case.new()
    assert make_target().terms(case.replay_id) is None, "terms before it was prepared"
    target, kept = case.prepared(make_target), terms()
    for opened in (target, pickle.loads(pickle.dumps(target))):  # noqa: S301 - our own bytes
        found = opened.terms(case.replay_id)
        assert found is not None, "no terms after being prepared"
        assert replace(found, places={}, settled={}) == kept, f"terms: {found}, needed {kept}"
    assert_ledger(target, case, [], "with terms")
    commit_alone(target, case)
    assert make_target().terms(case.replay_id) == found, "terms have changed after a commit"
    assert make_target().terms(Case.new().replay_id) is None, "terms of another replay"
    onlooker.assert_gained(case.records, "with terms")


def _refuses_other_terms(make_target: MakeTarget, onlooker: Onlooker) -> None:
    """The first terms stay valid, with or without commits since; the refusal writes nothing."""
    case, kept = Case.new(), terms()
    target = case.prepared(make_target)
    found = target.terms(case.replay_id)
    others = (
        terms(digest="another plan"),
        terms(source="elsewhere"),
        terms(topics={"contract": "another id", "other": "an id"}),
        terms(rules={"target": "elsewhere"}),
        terms(digest=""),
    )
    entry = None
    for committed in (False, True):
        if committed:
            entry = commit_alone(target, case)
        for other in others:
            _assert_other_terms(make_target(), case, other)
        assert make_target().terms(case.replay_id) == found, "other terms were written"
        make_target().prepare(case.replay_id, target.inspect(look()), kept)
    assert_ledger(target, case, [entry] if entry else [], "after other terms")
    onlooker.assert_gained(case.records, "after other terms")


def _assert_other_terms(target: Target, case: Case, other: Terms) -> None:
    refusal = None
    try:
        target.prepare(case.replay_id, target.inspect(look()), other)
    except OtherTerms as refused:
        refusal = refused
    assert refusal is not None, f"other terms than those of the ledger were not refused: {other}"
    assert refusal.exit_code == EXIT_REFUSED, "other terms: the exit code is not that of a guard"
    assert refusal.differences, "other terms are refused without the differences"


def _begins_without_terms_only_once(make_target: MakeTarget, onlooker: Onlooker) -> None:
    """A replay that an older version began without terms continues, adds a note, and gets terms.

    A target may refuse to commit without them: no version of it did, or it knows another database by that.
    """
    other, case = Case.new(), Case.new()
    target = other.prepared(make_target)
    try:
        commit_alone(target, case)
    except NotBegunThere:
        assert_ledger(target, case, [], "without terms")
        onlooker.assert_gained([], "without terms")
        return
    inspection = target.inspect(look())
    notes = target.prepare(case.replay_id, inspection, terms())
    assert [note.code for note in notes] == [NO_TERMS], f"begun without terms: {notes}"
    assert target.terms(case.replay_id) is not None, "no terms after being prepared"
    assert not target.prepare(case.replay_id, inspection, terms()), "said twice"
    _assert_other_terms(make_target(), case, terms(source="elsewhere"))
    onlooker.assert_gained(case.records, "begun without terms")


CHECKS_OF_TERMS = (_keeps_its_terms, _refuses_other_terms, _begins_without_terms_only_once)
