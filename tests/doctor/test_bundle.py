"""The archive as a file."""

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from gpusight.doctor.bundle import packed, tail, write_bundle


def test_an_archive_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    before = os.umask(0)
    try:
        write_bundle(path, {"a.txt": "text\n"}, 1_700_000_000.5)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with tarfile.open(path) as archive:
        [member] = archive.getmembers()
        assert (member.name, member.mode, member.uid, member.uname) == ("gpusight-doctor/a.txt", 0o600, 0, "")
        content = archive.extractfile(member)
        assert content is not None
        assert content.read() == b"text\n"


def test_nothing_is_replaced_or_followed(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for path in (there, link):
        with pytest.raises(FileExistsError):
            write_bundle(path, {"a": "b"}, 0.0)
    assert there.read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()


def test_odd_text_is_packed(tmp_path: Path) -> None:
    data = packed({"odd": "half \ud800 \0 ü"}, 0.0)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        content = archive.extractfile("gpusight-doctor/odd")
        assert content is not None
        assert content.read().decode() == "half \\ud800 \0 ü"


def test_a_log_is_cut_at_a_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\xff short\n")
    assert tail(path) == "\ufffd short\n"
    path.write_text("".join(f"line {number:06}\n" for number in range(100_000)))
    kept = tail(path)
    assert kept.startswith("line ")
    assert kept.endswith("line 099999\n")
    assert len(kept) <= 256 << 10
