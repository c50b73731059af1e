"""What SQLite and PostgreSQL spell differently; everything else is one SQL for both.

Statements are written with `?` for a parameter and contain neither `?` nor `%` otherwise.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

SCHEMA = "gpusight"
"""Where the tables are in PostgreSQL."""

LOCKS = int.from_bytes(b"gpus", "big")
"""First half of our advisory locks in PostgreSQL; the second half says which."""
MIGRATION_LOCK = 1
LEADER_LOCK = 2


@dataclass(frozen=True, slots=True)
class Dialect:
    """`begin_read` starts a snapshot: all that one transaction reads is of one moment."""

    placeholder: str
    words: Mapping[str, str]
    """For migrations: types and the like."""
    begin_read: str
    begin_write: str
    before_migration: tuple[str, ...]
    """Makes sure that two processes do not migrate at once, and that there is a place for the tables."""
    tables: str
    """Selects the names of the tables that are there."""
    size: str
    """Selects how many bytes the tables take."""
    among: str
    """The condition that `{column}` is in a list, which is one parameter: there may be thousands of names."""
    pack: Callable[[Sequence[str]], object]
    """Makes that parameter."""

    def spelled(self, statement: str) -> str:
        return statement.replace("?", self.placeholder)


SQLITE = Dialect(
    placeholder="?",
    words={"text": "text", "blob": "blob", "serial": "integer primary key autoincrement"},
    begin_read="begin",
    begin_write="begin immediate",
    before_migration=(),
    tables="select name from sqlite_master where type = 'table' and name <> 'sqlite_sequence'",
    size="select page_count * page_size from pragma_page_count(), pragma_page_size()",
    among="{column} in (select value from json_each(?))",
    pack=json.dumps,
)

POSTGRES = Dialect(
    placeholder="%s",
    words={
        "text": 'text collate "C"',  # sorts by bytes as SQLite does, wherever the database lives
        "blob": "bytea",
        "serial": "bigint generated always as identity primary key",
    },
    begin_read="begin isolation level repeatable read read only",
    begin_write="begin isolation level read committed read write",
    before_migration=(
        f"select pg_advisory_xact_lock({LOCKS}, {MIGRATION_LOCK})",
        # `create schema if not exists` wants the right to create one even if it is there.
        f"do $$ begin if to_regnamespace('{SCHEMA}') is null then create schema {SCHEMA}; end if; end $$",
    ),
    tables=f"select tablename from pg_tables where schemaname = '{SCHEMA}'",  # noqa: S608 - a constant
    size=(
        "select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c"  # noqa: S608 - a constant
        f" join pg_namespace n on n.oid = c.relnamespace where c.relkind = 'r' and n.nspname = '{SCHEMA}'"
    ),
    among="{column} = any(?)",
    pack=list,
)
