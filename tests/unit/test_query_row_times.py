"""Which rows were certainly written before a statement began: a busy server writes some of them late."""

from playhead.queries.row_times import RowTimes
from playhead.querylog.statement import Act, Statement

S = 1_000_000
ANY = Statement("s", 1, 0, Act.QUERY, 0, "COMMIT")


def row(place: int, written_s: float, lasted_s: float = 0) -> Statement:
    due, lasted = int((written_s - lasted_s) * S), int(lasted_s * S)
    return ANY._replace(place=place, done_place=place, due_us=due, duration_us=lasted)


def found(*rows: Statement) -> list[int]:
    times = RowTimes()
    return [times.row_before(each) for each in rows]


def test_only_rows_of_half_a_second_ago_were_certainly_written() -> None:
    assert found(row(0, 1), row(1, 1.04), row(2, 1.5), row(3, 1.56), row(4, 2.3)) == [
        -1,
        -1,
        -1,
        1,
        3,
    ]


def test_a_statement_that_lasted_began_before() -> None:
    assert found(row(0, 1), row(1, 3), row(2, 9, lasted_s=7.4)) == [-1, 0, 0]


def test_a_log_of_starts_says_nothing() -> None:
    start = row(1, 5)._replace(duration_us=None)
    later = row(2, 6)._replace(done_place=3)
    assert found(row(0, 1), start, later, row(4, 7)) == [-1, -1, -1, 0]


def test_a_clock_that_was_set_back_says_nothing_about_what_was_before() -> None:
    assert found(row(0, 9000), row(1, 100), row(2, 101)) == [-1, -1, 1]


def test_a_statement_after_many_rows() -> None:
    rows = [row(at, at / 1_000) for at in range(20_000)]
    assert found(*rows)[-1] in range(19_300, 19_500)
