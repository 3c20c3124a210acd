"""Applies `--decode` to a replay, and to the samples of its plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from playhead.config.context import Configuration
from playhead.decoding import REPLAYED_FORMS, UNDECODED_FORMS, Decoding, Kinds
from playhead.endpoint import system_of
from playhead.errors import BadValue, UsageError
from playhead.note import Note
from playhead.records import Records
from playhead.request import ReplaySpec
from playhead.transform.json_limits import LimitedJson
from playhead.transform.selected_fields import for_selection


def decoding_of(spec: ReplaySpec, configuration: Configuration) -> Decoding | None:
    """Return the decoding of this replay's values; None if they stay as they are."""
    word = spec.decode
    if word not in REPLAYED_FORMS:
        raise BadValue("--decode", found=word, needed=", ".join(REPLAYED_FORMS), where="a replay")
    if word in UNDECODED_FORMS:
        return for_selection(LimitedJson(), spec.transform) if spec.is_transformed else None
    if not _looks_into_values(spec):
        raise UsageError(
            f"--decode {word} would have no effect: {spec.target.system} gets the bytes unchanged",
            hint="leave it out, or read the values with --where, --select, or --typed for parquet",
        )
    from playhead.schemas.decoder import decoder
    from playhead.schemas.value_decoder import ValueDecoding

    url = configuration.get("schema_registry")
    decoder(word, registry_url=url)  # Refuse it now rather than in a task.
    decoding = ValueDecoding(word, url)
    return for_selection(LimitedJson(decoding), spec.transform) if spec.is_transformed else decoding


def _looks_into_values(spec: ReplaySpec) -> bool:
    is_table = system_of(spec.target).kind == "table"
    return is_table or spec.is_transformed or spec.archive.typed


@dataclass(frozen=True, slots=True)
class Sampled:
    """The samples of a plan, decoded as tasks will decode them."""

    records: Sequence[Records]
    kinds: Mapping[str, Kinds] = field(default_factory=dict)
    """For each topic, the fields of its values in their schemas."""
    notes: tuple[Note, ...] = ()


def sampled(samples: Sequence[Records], decoding: Decoding | None, word: str) -> Sampled:
    """Decode the samples, leaving out those that fail, and those behind values that fill the memory."""
    read, unread = readable(samples, "cannot be read")
    read = [replace(each, decoded=None) for each in read if len(each)]
    if decoding is None:
        return Sampled(read, notes=unread)
    decoder = decoding.open()
    kept, notes = readable([*map(decoder.decoded_first, read)], f"cannot be decoded as {word}")
    kinds = {
        topic: decoder.kinds(each for each in kept if each.topic == topic)
        for topic in dict.fromkeys(each.topic for each in kept)
    }
    return Sampled(kept, kinds, unread + notes)


def readable(samples: Sequence[Records], why: str) -> tuple[list[Records], tuple[Note, ...]]:
    """Return the samples without those of which a run would say that they cannot be read, and a note on these."""
    kept: list[Records] = []
    troubles: list[str] = []
    for records in samples:
        good = [i for i, offset in enumerate(records.offsets) if offset not in records.undecoded]
        kept.append(replace(records.pick(good), undecoded={}))
        troubles += [
            f"{records.topic}:{records.partition} offset {offset}: {reason}"
            for offset in records.offsets
            if (reason := records.undecoded.get(offset)) is not None
        ]
    return kept, (_note(why, troubles, sum(map(len, samples))),) if troubles else ()


def _note(why: str, troubles: Sequence[str], looked_at: int) -> Note:
    text = f"{len(troubles)} of {looked_at} sampled records {why}; --on-error says "
    return Note("decode-failed", f"{text}what happens to them; the first is {troubles[0]}")
