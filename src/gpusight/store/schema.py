"""What the embedded store's file looks like.

A row of `scrapes` is one look at one target; it shows until the target's next scrape, whatever came of that one. So a
series that vanishes, or whose target fails, ends at once, and nothing has to be written for its end. Rows of `samples`
lie in order of their scrapes, so a window touches only its own part of the file.
"""

from duckdb import DuckDBPyConnection

from gpusight.model.series import StoreError

VERSION = 1

_TABLES = (
    "CREATE TABLE meta (name VARCHAR NOT NULL, text VARCHAR NOT NULL)",
    "CREATE TABLE targets (id INTEGER NOT NULL, job VARCHAR NOT NULL, instance VARCHAR NOT NULL)",
    (
        "CREATE TABLE series (id INTEGER NOT NULL, target INTEGER NOT NULL, family VARCHAR NOT NULL,"
        " labels VARCHAR NOT NULL)"
    ),
    "CREATE TABLE scrapes (id BIGINT NOT NULL, target INTEGER NOT NULL, moment DOUBLE NOT NULL, up BOOLEAN NOT NULL)",
    "CREATE TABLE samples (scrape BIGINT NOT NULL, series INTEGER NOT NULL, value DOUBLE NOT NULL)",
    # `bucket` is Unix time / 300. Values are as the page had them, blanks and what is no number left out.
    (
        "CREATE TABLE rollups (bucket INTEGER NOT NULL, series INTEGER NOT NULL, samples INTEGER NOT NULL,"
        " total DOUBLE NOT NULL, least DOUBLE NOT NULL, most DOUBLE NOT NULL, latest DOUBLE NOT NULL)"
    ),
)

ROLLUP_SECONDS = 300

BLANKS = (
    *(float(0x7FFFFFF0 + i) for i in range(4)),
    float(0x7FFFFFFFFFFFFFF0),
    *(140737488355328.0 + i for i in range(4)),
)
"""What DCGM puts where it knows nothing."""


def prepare(connection: DuckDBPyConnection, path: str) -> None:
    """Make the tables in a new file; StoreError if the file holds something else."""
    tables = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if not tables:
        connection.begin()
        for statement in _TABLES:
            connection.execute(statement)
        set_meta(connection, "schema", str(VERSION))
        connection.commit()
        return
    if not tables >= {"meta", "targets", "series", "scrapes", "samples", "rollups"}:
        raise StoreError(f"{path} is a DuckDB file of something else: give the embedded store a path of its own")
    found = meta(connection, "schema")
    if found != str(VERSION):
        raise StoreError(f"{path} has layout {found}, this version of gpusight knows {VERSION}: give it another path")


def meta(connection: DuckDBPyConnection, name: str) -> str | None:
    row = connection.execute("SELECT text FROM meta WHERE name = ?", [name]).fetchone()
    return str(row[0]) if row else None


def set_meta(connection: DuckDBPyConnection, name: str, text: str) -> None:
    connection.execute("DELETE FROM meta WHERE name = ?", [name])
    connection.execute("INSERT INTO meta VALUES (?, ?)", [name, text])
