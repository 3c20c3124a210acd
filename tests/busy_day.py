"""A busy day on a server: chains of changes whose order shows, pgbench, and what is awkward to play again."""

import random
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from tests.postgres_pair import Postgres, started

# Everything but what clocks and sequences say.
TABLES = {
    "chains": "SELECT id, v FROM chains ORDER BY id",
    "moves": "SELECT who, what, n FROM moves ORDER BY who, what, n",
    "accounts": "SELECT aid, bid, abalance FROM pgbench_accounts ORDER BY aid",
    "tellers": "SELECT tid, bid, tbalance FROM pgbench_tellers ORDER BY tid",
    "branches": "SELECT bid, bbalance FROM pgbench_branches ORDER BY bid",
    "history": "SELECT tid, bid, aid, delta FROM pgbench_history ORDER BY 1, 2, 3, 4",
}
CHAIN = "UPDATE chains SET v = (v * 31 + {x}) % 1000000007 WHERE id = {id}"
Rows = Mapping[str, list[tuple[Any, ...]]]


def rows_of(server: Postgres) -> Rows:
    return {name: server.sql(text) for name, text in TABLES.items()}


def make_base(server: Postgres) -> Postgres:
    """Make a server with the tables as they are before the day, and stop it."""
    server.make()
    with started(server):
        server.sql("CREATE TABLE chains (id int PRIMARY KEY, v bigint NOT NULL)")
        server.sql("INSERT INTO chains SELECT i, 0 FROM generate_series(0, 7) i")
        server.sql("CREATE TABLE moves (who int, what text, n int, at timestamptz DEFAULT now())")
        bench(server, "-i", "-s", "1", "-q")
    return server


def recorded_day(base: Postgres, folder: Path, settings: Mapping[str, str]) -> tuple[Path, Rows]:
    """Return the log of the day, and the rows that it left."""
    source = base.copy_to(folder, settings)
    with started(source):
        play_day(source)
        rows = rows_of(source)
    return source.log, rows


def play_day(source: Postgres) -> None:
    clients = [threading.Thread(target=day, args=(source, seed, 25)) for seed in range(4)]
    for client in clients:
        client.start()
    bench(source, "-c", "4", "-j", "1", "-t", "25", "-n")
    bench(source, "-c", "3", "-j", "1", "-t", "15", "-n", "-M", "prepared")
    for client in clients:
        client.join()


def expect_equal(target: Postgres, rows: Rows) -> None:
    found = rows_of(target)
    assert {name for name in rows if rows[name] != found[name]} == set()


def bench(server: Postgres, *options: str) -> None:
    place = ("-h", "127.0.0.1", "-p", str(server.port), "-U", "app")
    server.run(server.program("pgbench"), *place, *options, "app")


def day(server: Postgres, seed: int, transactions: int) -> None:
    """One client's day: chains of changes whose order shows, errors, savepoints, rollbacks, cancels."""
    rnd = random.Random(seed)
    with psycopg.connect(server.url, autocommit=True) as client:
        client.execute(f"SET application_name = 'day {seed}'".encode())
        for number in range(transactions):
            with suppress(psycopg.Error):
                _transaction(client, rnd, seed, number)
            if client.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                client.execute("ROLLBACK")
        _awkward(client, seed)


def _transaction(client: "psycopg.Connection[Any]", rnd: random.Random, seed: int, n: int) -> None:
    client.execute("BEGIN")
    for key in sorted(rnd.sample(range(8), 3)):
        x = rnd.randrange(1000)
        if rnd.random() < 0.5:
            client.execute(CHAIN.format(x=x, id=key).encode())
        else:
            bound = CHAIN.replace("%", "%%").format(x="%s", id="%s")
            client.execute(bound.encode(), (x, key), prepare=rnd.random() < 0.5)
    client.execute("INSERT INTO moves VALUES (%s, %s, %s)", (seed, "it's \\ $1 = ;\n--", n))
    ending = rnd.random()
    if ending < 0.1:
        client.execute("ROLLBACK")
        return
    if ending < 0.3:
        client.execute("SAVEPOINT here")
        with suppress(psycopg.Error):
            client.execute("INSERT INTO chains VALUES (100, 1 / 0)")
        client.execute("ROLLBACK TO here")
    if ending > 0.9:
        client.execute("SELECT 1 / 0")
    client.execute("COMMIT")


def _awkward(client: "psycopg.Connection[Any]", seed: int) -> None:
    """What each client does once, outside of transactions too; no two of them touch the same row."""
    client.execute(f"INSERT INTO moves VALUES ({seed}, 'alone', 0)".encode())
    client.execute(
        f"INSERT INTO moves VALUES ({seed}, 'a', 1); INSERT INTO moves VALUES ({seed}, 'b', 2)".encode()
    )
    with suppress(psycopg.Error):
        client.execute(f"INSERT INTO moves VALUES ({seed}, 'never', 1); SELECT 1 / 0".encode())
    client.execute(f"BEGIN; INSERT INTO moves VALUES ({seed}, 'whole', 3); COMMIT".encode())
    client.execute(f"PREPARE q(int) AS INSERT INTO moves VALUES ({seed}, 'prepared', $1)".encode())
    client.execute("EXECUTE q(7)")
    client.execute("SET statement_timeout = '30ms'")
    with suppress(psycopg.Error):
        client.execute(
            f"INSERT INTO moves SELECT {seed}, 'canceled', 1 FROM pg_sleep(0.5)".encode()
        )
    client.execute("SET statement_timeout = 0")
    timer = threading.Timer(0.1, client.cancel)
    timer.start()
    with suppress(psycopg.Error):
        client.execute(f"INSERT INTO moves SELECT {seed}, 'canceled', 2 FROM pg_sleep(5)".encode())
    timer.join()
    client.execute("VACUUM moves")
    client.execute("BEGIN")
    client.execute(f"INSERT INTO moves VALUES ({seed}, 'left open', 1)".encode())
