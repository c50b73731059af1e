"""The file: its rights, its disk, its damage."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest

from gpusight.journal.open import open_existing, open_journal
from gpusight.journal.retention import Retention
from gpusight.journal.sqlite import create
from gpusight.model.history import JournalError
from gpusight.model.time import ManualClock
from tests.journal.conftest import Place
from tests.journal.rows import CHANGE, HOUR


def opened(location: str | Path) -> None:
    open_journal(location, retention=Retention(), clock=ManualClock()).close()


@pytest.fixture
def locked_directory() -> Iterator[Path]:
    """Everybody may look into it, nobody may write; root is nobody meanwhile. It holds a journal of version 0."""
    directory = Path(tempfile.mkdtemp())
    create(directory / "there.sqlite3")
    directory.chmod(0o555)
    if is_root := os.geteuid() == 0:
        os.seteuid(65_534)
    try:
        yield directory
    finally:
        if is_root:
            os.seteuid(0)
        directory.chmod(0o700)
        shutil.rmtree(directory)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """2 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=False)
    if mounted.returncode:
        pytest.skip("this root may not mount a small disk")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_only_the_owner_may_read_the_journal_and_what_is_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "directory" / "journal.sqlite3"
    journal = open_journal(path, retention=Retention(), clock=ManualClock())
    journal.record_round([], [], [], b"1", at=1.0)
    assert sorted(entry.name for entry in path.parent.iterdir()) == [
        f"{path.name}{end}" for end in ("", "-shm", "-wal")
    ]
    assert {entry.stat().st_mode & 0o777 for entry in path.parent.iterdir()} == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700
    journal.close()


def test_it_is_durable_by_its_own_settings(sqlite: Place) -> None:
    with sqlite.open().engine.write() as session:
        settings = [session.all(f"pragma {name}")[0][0] for name in ("journal_mode", "synchronous", "foreign_keys")]
    assert settings == ["wal", 2, 1]


@pytest.mark.parametrize("name", ["what? #1 100%.sqlite3", "ü ' \".sqlite3"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    opened(str(tmp_path / name))
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_an_empty_file_becomes_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    path.touch()
    opened(path)
    opened(path)


def test_a_directory_without_rights_is_a_sentence(locked_directory: Path) -> None:
    with pytest.raises(JournalError, match="cannot be made: Permission denied; name a directory that can be written"):
        opened(locked_directory / "new.sqlite3")
    with pytest.raises(JournalError, match=r"journal .* cannot be opened: its directory must exist and be writable"):
        opened(locked_directory / "there.sqlite3")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not look into a directory")
def test_a_directory_that_may_not_be_looked_into_is_a_sentence(tmp_path: Path, locked_directory: Path) -> None:
    tmp_path = tmp_path / "journal.sqlite3"
    with pytest.raises(JournalError, match="cannot be made: Permission denied"):
        opened(tmp_path)
    with pytest.raises(JournalError, match="cannot be read: Permission denied"):
        open_existing(tmp_path, clock=ManualClock())


def test_a_directory_that_is_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "journal.sqlite3", tmp_path / "file" / "deeper" / "journal.sqlite3"):
        with pytest.raises(JournalError, match="cannot be made: "):
            opened(path)


def test_a_directory_in_the_journals_place_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be opened"):
        opened(tmp_path)


def test_a_file_of_something_else_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    path.write_bytes(b"These are not the rows you are looking for. " * 100)
    with pytest.raises(JournalError, match=r"is not a journal .*: move it away, or put a backup in its place"):
        opened(path)
    assert path.read_bytes().startswith(b"These")


def test_a_damaged_file_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    opened(path)
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with pytest.raises(JournalError, match=r"is damaged .*: move it away and put a backup in its place"):
        opened(path)


def test_another_scheme_is_a_sentence_without_its_password() -> None:
    with pytest.raises(JournalError, match="starts with postgres://, not with mysql://") as caught:
        opened("mysql://user:secret@host/db")
    assert "secret" not in str(caught.value)


def test_a_writer_that_does_not_end_is_a_sentence(sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusight.journal.sqlite._BUSY_SECONDS", 0.05)
    first, second = sqlite.open(), sqlite.open()
    with first.engine.write() as session:
        session.run("delete from hours")
        with pytest.raises(JournalError, match="another process has been writing"):
            second.record_round([], [], [], b"2", at=1.0)
    second.record_round([], [], [], b"2", at=1.0)
    assert first.state() == b"2"


def test_a_full_disk_is_a_sentence_and_costs_only_what_did_not_fit(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1 << 20))
    journal = open_journal(small_disk / "journal.sqlite3", retention=Retention(), clock=ManualClock())
    number = 0
    deadline = time.monotonic() + 60
    with pytest.raises(JournalError, match=r"the disk with the journal .* is full: nothing was kept"):
        while time.monotonic() < deadline:
            change = CHANGE._replace(at=float(number + 1), detail="x" * 20_000)
            journal.record_round([change], [HOUR], [], str(number + 1).encode(), at=1.0)
            number += 1
    assert number > 0
    for _ in range(2):
        assert journal.state() == str(number).encode()
        assert [row.at for row in journal.changes(start=0, end=inf)] == list(range(number, 0, -1))
        journal.close()
        journal = open_journal(small_disk / "journal.sqlite3", retention=Retention(), clock=ManualClock())
    ballast.unlink()
    journal.record_round([CHANGE], [HOUR], [], b"after", at=1.0)
    assert journal.state() == b"after"
    journal.close()


def test_a_journal_that_does_not_fit_is_a_sentence(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes((2 << 20) - 4096))
    with pytest.raises(JournalError, match=r"is full|No space left"):
        opened(small_disk / "journal.sqlite3")
    (small_disk / "ballast").unlink()
    opened(small_disk / "journal.sqlite3")
    assert [entry.name for entry in small_disk.iterdir()] == ["journal.sqlite3"]
