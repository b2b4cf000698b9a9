# SPDX-License-Identifier: Apache-2.0
"""More rows in a journal than anybody has the time to make: copies of one that is real

cayd must be stopped, it has the file locked; the tables are those it made itself.
"""
import contextlib
import os
import secrets
import sqlite3

DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
CONTROL_FILES = ("journal.db", "journal.db-wal", "journal.db-shm")


def new_id(like):
    """Of the same noun, cell and node."""
    return like[:9] + "".join(secrets.choice(DIGITS) for _ in range(len(like) - 9))


@contextlib.contextmanager
def journal(cay):
    top = cay.state / "db"
    owner = os.stat(top / "journal.db")
    db = sqlite3.connect(top / "journal.db")
    db.row_factory = sqlite3.Row
    try:
        with db:
            yield db
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        db.close()
        for name in CONTROL_FILES:
            with contextlib.suppress(FileNotFoundError):
                os.chown(top / name, owner.st_uid, owner.st_gid)


def copies(db, table, row, make, n):
    """n rows like this one, changed by make(i)."""
    names = row.keys()
    rows = ([{**dict(row), **make(i)}[k] for k in names] for i in range(n))
    db.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", rows)


def add_ended(cay, n):
    """n sandboxes that ended, younger than all there are; the number of the first."""
    with journal(cay) as db:
        one = db.execute("SELECT * FROM sandbox WHERE state = 'terminated' LIMIT 1").fetchone()
        first = db.execute("SELECT max(seq) FROM sandbox").fetchone()[0] + 1

        def make(i):
            box = new_id(one["id"])
            return {"id": box, "seq": first + i, "text": one["text"].replace(one["id"], box)}
        copies(db, "sandbox", one, make, n)
    return first


def add_events(cay, n):
    """n more events, so that what cayd keeps of them in memory is full."""
    with journal(cay) as db:
        one = db.execute("SELECT * FROM event ORDER BY seq DESC LIMIT 1").fetchone()
        old, first = f'"seq":{one["seq"]},', one["seq"] + 1
        copies(db, "event", one,
               lambda i: {"seq": first + i, "text": one["text"].replace(old, f'"seq":{first + i},')}, n)
