"""What was found out about a text is kept, unless the text is large."""

from playhead.querylog.text_cache import MOST_LETTERS, cached_if_short


def test_large_texts_are_not_kept() -> None:
    asked: list[tuple[str, bool]] = []

    @cached_if_short(2)
    def length(text: str, *, escapes: bool = False) -> int:
        asked.append((text, escapes))
        return len(text)

    short, large = "x" * MOST_LETTERS, "x" * (MOST_LETTERS + 1)
    for text in (short, short, large, large):
        assert length(text) == len(text)
    assert length(short, escapes=True) == len(short)
    assert asked == [(short, False), (large, False), (large, False), (short, True)]


def test_the_readers_of_statements_keep_no_large_text() -> None:
    from playhead.queries.sql_text import read_sql
    from playhead.querylog import sql

    large = "SELECT '" + "x" * MOST_LETTERS + "'"
    for reader in (sql.understand, sql.normalized, sql.fingerprint, read_sql):
        before = reader.cache_info().currsize  # type: ignore[attr-defined]
        reader(large)
        assert reader.cache_info().currsize == before  # type: ignore[attr-defined]
