"""One word for each thing: no name or text of the product uses a word that the glossary rejects."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "playhead"
GLOSSARY = ROOT / "docs" / "glossary.md"
SENTENCE = ["Record", "Source", "Span", "Transform", "Target", "Pace"]
ELEVEN = [*SENTENCE, "Plan", "Slice", "Ledger", "Proof", "Pipeline"]

# By word and file, or by the text it stands in, anywhere: whose word it is there.
ALLOWED_IN_FILE = {
    ("message", "errors.py"): "the sentence that an error says",
    ("message", "cli/app.py"): "the sentence that an error says",
    ("message", "cli/setup/doctor.py"): "the sentence that an error says",
    ("message", "cli/records/decode.py"): "the sentence that an error says",
    ("message", "cli/records/jsonl.py"): "the sentence that an error says",
    ("message", "cli/records/record_lines.py"): "the sentence that an error says",
    ("message", "schemas/protobuf.py"): "what Protobuf calls a type, and a value of it",
    ("message", "schemas/protobuf_limits.py"): "what Protobuf calls a value of a type",
    ("message", "schemas/proto_compiler.py"): "what Protobuf calls a type",
    ("message", "schemas/proto_json.py"): "what Protobuf calls a type",
    ("message", "schemas/value_decoder.py"): "the sentence that an error says",
    ("message", "schemas/registry.py"): "a field of a registry's errors",
    ("message", "files/errors.py"): "the sentence that an error says",
    ("message", "files/compare.py"): "the sentence that an error says",
    ("message", "postgres/stage/invalid_rows.py"): "a column of PostgreSQL's pg_input_error_info",
    ("range", "postgres/table.py"): "a table of PostgreSQL's catalog, of types",
    ("message", "capture/recorder.py"): "the sentence that an error says",
    ("checkpoint", "querylog/given.py"): "a command of SQL",
    ("message", "task/play.py"): "the sentence that an error says",
    ("message", "replay/runner.py"): "the sentence that an error says",
    ("message", "spark/failures.py"): "the sentence that an error says",
    ("message", "config/kafka_properties.py"): "Kafka's properties, and what they bound",
    ("batch", "config/kafka_properties.py"): "Kafka's property batch.size, and what it means",
    ("src", "host/folders.py"): "the system's parameter",
    ("dst", "host/folders.py"): "the system's parameter",
    ("throttling", "files/stores/s3.py"): "AWS's name of an error",
    ("batch", "traffic/record_sets.py"): "names that fields of captured traffic may have",
    ("message", "traffic/record_sets.py"): "names that fields of captured traffic may have",
    ("batch", "traffic/aborted.py"): "a field of captured traffic",
    ("message", "querylog/rows.py"): "a column of PostgreSQL's logs",
    ("message", "querylog/pairs.py"): "a field of captured traffic",
    ("message", "querylog/shapes.py"): "a column of PostgreSQL's logs",
    ("message", "querylog/statements.py"): "a column of PostgreSQL's logs",
    ("message", "querylog/lines.py"): "a column of PostgreSQL's logs",
    ("message", "querylog/logged.py"): "a column of PostgreSQL's logs",
    ("message", "querylog/stderr_prefix.py"): "a column of PostgreSQL's logs",
    ("event", "querylog/shapes.py"): "a field of Filebeat's",
    ("message", "postgres/query_link.py"): "a field of PostgreSQL's errors, and libpq's names",
    ("message", "postgres/explain.py"): "a field of PostgreSQL's errors, and libpq's names",
    ("chunk", "postgres/query_link.py"): "libpq's name of a part of a result",
    ("input", "postgres/query_link.py"): "libpq's name of what arrives",
    ("event", "queries/connections.py"): "what Python's selectors wait for",
    ("range", "traffic/filter/from_json.py"): "a name in the known filter language's JSON form",
}
ALLOWED_TEXT = {
    "maxBytesPerBatch": "a setting of Spark's",
    "Message": "the class of librdkafka's Python client",
    "max.message": "a setting of Kafka's",
    "message.timestamp": "a setting of Kafka's",
    "max-messages": "an option of Kafka's console consumer",
    "max.messages": "a setting of librdkafka's",
    "min.messages": "a setting of librdkafka's",
    "message.max": "a setting of librdkafka's",
    "message_primary": "what PostgreSQL calls an error's sentence",
    "message_detail": "what PostgreSQL calls an error's second sentence",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": "an error of Kafka's",
    "batch.size": "a setting of librdkafka's",
    "combine_chunks": "Arrow's method",
    "PG_DIAG_MESSAGE_PRIMARY": "what PostgreSQL calls an error's sentence",
    "PG_DIAG_MESSAGE_DETAIL": "what PostgreSQL calls an error's second sentence",
    "pg_input_is_valid": "PostgreSQL's function",
    "pg_input_error_info": "PostgreSQL's function",
    "record batch": "what Kafka calls the records that a producer sends together",
    "record batches": "what Kafka calls the records that a producer sends together",
    "Spark's checkpoint": "what Spark calls its own state of a query",
    "RecordBatch": "Arrow's class",
    "RecordBatchReader": "Arrow's class",
    "from_batches": "Arrow's method",
    "to_batches": "Arrow's method",
    "open_input_file": "Arrow's method",
    "end of input": "what Spark's parser says",
    "event streams": "the tagline, which names the world's thing and not ours",
    "Event": "asyncio's and threading's class",
    "new_event_loop": "asyncio's",
    "range": "Python's builtin, and Spark's method of the same name",
    "Range": "the HTTP header",
    "getMessageParameters": "PySpark's method",
    "foreachBatch": "PySpark's method",
    "checkpointLocation": "an option of Spark's",
    "streaming.checkpoint": "a setting of Spark's",
    "minBatchesToRetain": "a setting of Spark's",
    "log_destination": "PostgreSQL's setting",
    "lc_messages": "PostgreSQL's setting",
    "timerange": "a keyword of the known filter language",
    "batchLength": "a field of captured traffic",
    "CompressedInputStream": "Arrow's class",
    "pg_event_trigger": "PostgreSQL's catalog",
    "pg_range": "PostgreSQL's catalog",
    "AbstractEventLoop": "asyncio's class",
}


class Found(NamedTuple):
    """A word of the code, and the name or text it stands in."""

    word: str
    line: int
    text: str
    is_name: bool


def rejected_words(glossary: str) -> dict[str, str]:
    """Every word of the glossary's last columns, and the word to use for it."""
    rejected = {}
    for line in glossary.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[0] not in ("word", "---"):
            rejected |= {word.strip(): cells[0] for word in cells[2].split(",") if word.strip()}
    return rejected


def words_of(text: str) -> list[str]:
    """Words of a text or an identifier, in lower case: `ReplaySink` and `replay_sink` hold sink."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    return [singular(word) for word in re.findall(r"[a-z]+", apart.lower())]


def singular(word: str) -> str:
    """Good enough for the rejected words: `batches`, `sinks`; but not `dess`."""
    if word.endswith(("ches", "shes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def texts_of(source: str) -> Iterator[tuple[int, str, bool]]:
    """Every name and every text of a module: line, text, whether it is a name. Comments are not."""
    texts = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string, True
        elif token.type in texts:
            yield token.start[0], token.string, False


def rejected_in(source: str, rejected: dict[str, str]) -> Iterator[Found]:
    wanted = {singular(word) for word in rejected}
    for line, text, is_name in texts_of(source):
        for word in words_of(without_allowed(text, is_name)):
            if word in wanted:
                yield Found(word, line, text, is_name)


def without_allowed(text: str, is_name: bool) -> str:
    """A name is allowed when it is one of the texts; a text loses those it holds as whole words."""
    if is_name:
        return "" if text in ALLOWED_TEXT else text
    for allowed in ALLOWED_TEXT:
        text = re.sub(rf"\b{re.escape(allowed)}\b", " ", text)
    return text


REJECTED = rejected_words(GLOSSARY.read_text(encoding="utf-8"))
MODULES = sorted(PACKAGE.rglob("*.py"))


def test_the_glossary_has_the_eleven_words_and_rejects_their_usual_synonyms():
    rows = re.findall(r"^\| (\w[\w ]*) \|", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    words = [row for row in rows if row != "word"]
    assert words[:11] == ELEVEN
    usual = {"message", "input", "window", "range", "sink", "destination", "batch", "checkpoint"}
    assert usual <= set(REJECTED)


def test_each_word_is_defined_once():
    rows = re.findall(r"^\| (\w[\w ]*) \|", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    words = [row for row in rows if row != "word"]
    assert sorted(words) == sorted(set(words))


def test_no_word_is_both_used_and_rejected():
    used = {word.lower() for word in REJECTED.values()}
    assert used.isdisjoint(REJECTED)


@pytest.mark.parametrize("module", MODULES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_no_rejected_word_is_used(module):
    file = module.relative_to(PACKAGE).as_posix()
    by_singular = {singular(word): right for word, right in REJECTED.items()}
    wrong = [
        f"{file}:{found.line}: {found.word!r} is called {by_singular[found.word]!r} here: "
        f"{found.text.strip()[:70]}"
        for found in rejected_in(module.read_text(encoding="utf-8"), REJECTED)
        if (found.word, file) not in ALLOWED_IN_FILE
    ]
    assert not wrong, "\n".join([*wrong, "see docs/glossary.md"])


def test_no_file_is_named_by_a_rejected_word():
    wanted = {singular(word) for word in REJECTED}
    for module in MODULES:
        path = module.relative_to(PACKAGE).with_suffix("").as_posix()
        assert wanted.isdisjoint(words_of(path)), f"{path} is named by a rejected word"


@pytest.mark.slow  # it reads every module
def test_every_exception_is_still_needed():
    used: dict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        file = module.relative_to(PACKAGE).as_posix()
        source = module.read_text(encoding="utf-8")
        for _, text, is_name in texts_of(source):
            used[file].update(words_of(text))
            held = (a for a in ALLOWED_TEXT if (text == a if is_name else a in text))
            used["texts"].update(held)
    unused = [(word, file) for word, file in ALLOWED_IN_FILE if word not in used[file]]
    unused += [(text, "anywhere") for text in ALLOWED_TEXT if text not in used["texts"]]
    assert not unused, f"exceptions that nothing needs any more: {unused}"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("class ReplaySink: ...", ["sink"]),
        ("def write(message): ...", ["message"]),
        ("last_checkpoint = None", ["checkpoint"]),
        ("checkpoints = []", ["checkpoint"]),
        ('"""Writes a batch to the destination."""', ["batch", "destination"]),
        ('say(f"{count} events")', ["event"]),
        ("HTTPSinks = 1", ["sink"]),
        ("for number in range(3): ...", []),
        ("time_range = 3", ["range"]),
        ("whole = chunky = sinking = 1", []),
        ("# a batch of a comment", []),
        ("def replay(source, target): ...", []),
        ('"A tape deck for event streams"', []),
    ],
)
def test_a_rejected_word_is_found_wherever_it_is_written(source, words):
    ast.parse(source)
    assert [found.word for found in rejected_in(source + "\n", REJECTED)] == words
