"""How the tables came to be, step by step. A step that was released is never edited: add another one."""

from collections.abc import Sequence
from typing import NamedTuple

from gpusight.journal.engine import Engine, Session
from gpusight.model.history import JournalError


class Migration(NamedTuple):
    """`{text}`, `{blob}` and `{serial}` are the dialect's words."""

    version: int
    statements: tuple[str, ...]


MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        1,
        (
            """create table verdict_changes (
                at double precision not null, cluster {text} not null, namespace {text} not null,
                subject {text} not null, state {text} not null, previous {text} not null,
                confidence double precision not null, reason {text} not null, detail {text} not null,
                primary key (at, cluster, namespace, subject, state))""",
            """create table hours (
                hour bigint not null, cluster {text} not null, namespace {text} not null, subject {text} not null,
                model {text} not null, held_gpu_hours double precision not null,
                used_gpu_hours double precision not null, idle_gpu_hours double precision not null,
                unknown_gpu_hours double precision not null, energy_joules double precision, cost double precision,
                currency {text} not null, owner {text} not null, team {text} not null,
                primary key (hour, cluster, namespace, subject))""",
            """create table episodes (
                id {text} not null primary key, cluster {text} not null, namespace {text} not null,
                subject {text} not null, state {text} not null, opened double precision not null,
                closed double precision, reason {text} not null)""",
            "create table config_overrides (name {text} not null primary key, value {text} not null)",
            """create table config_changes (
                id {serial}, at double precision not null, actor {text} not null, name {text} not null,
                old {text} not null, new {text} not null)""",
            """create table analysis_state (
                id integer not null primary key check (id = 1), at double precision not null, state {blob} not null)""",
        ),
    ),
    Migration(
        2,
        (
            "create index verdict_changes_by_subject on verdict_changes (subject, at)",
            "create index verdict_changes_by_namespace on verdict_changes (namespace, at)",
            "create index hours_by_namespace on hours (namespace, hour)",
            "create index episodes_by_time on episodes (opened)",
            "create index episodes_by_namespace on episodes (namespace, opened)",
            "create index episodes_by_end on episodes (closed)",
            "create index episodes_open on episodes (opened) where closed is null",
        ),
    ),
)

NEWEST = MIGRATIONS[-1].version


def version_of(engine: Engine) -> int:
    """0 where there are no tables yet; JournalError where there are somebody else's."""
    with engine.read() as session:
        return _version(engine, session)


def check_version(engine: Engine, found: int, newest: int = NEWEST) -> None:
    if found > newest:
        raise JournalError(
            f"the journal {engine.name} has schema version {found} and this gpusight knows {newest}: upgrade gpusight"
        )


def migrate(engine: Engine, now: float, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring the tables up to date, in one transaction: all steps or none."""
    newest = migrations[-1].version
    found = version_of(engine)
    check_version(engine, found, newest)
    if found == newest:
        return
    with engine.write() as session:
        for statement in engine.dialect.before_migration:
            session.run(statement)
        found = _version(engine, session)  # another process may have been first
        if found == 0:
            session.run("create table schema_version (version integer primary key, applied double precision not null)")
        for step in migrations:
            if step.version > found:
                _apply(engine, session, step, now)


def _apply(engine: Engine, session: Session, step: Migration, now: float) -> None:
    for statement in step.statements:
        session.run(statement.format_map(engine.dialect.words))
    session.run("insert into schema_version (version, applied) values (?, ?)", (step.version, now))


def _version(engine: Engine, session: Session) -> int:
    tables = {name for (name,) in session.all(engine.dialect.tables)}
    if not tables:
        return 0
    if "schema_version" not in tables:
        raise JournalError(f"{engine.name} is a database of something else than gpusight: name another one")
    ((version,),) = session.all("select coalesce(max(version), 0) from schema_version")
    return int(version)
