"""Other exporters on the host."""

from pathlib import Path

from gpusight.sources.neighbours import find_exporters


def process(root: Path, pid: str, comm: str) -> None:
    (root / pid).mkdir(parents=True)
    (root / pid / "comm").write_bytes(comm.encode() + b"\n")


def test_known_exporters_are_found_once_each(tmp_path: Path) -> None:
    for pid, comm in (("1", "systemd"), ("7", "dcgm-exporter"), ("8", "dcgm-exporter"), ("9", "nvidia_gpu_expo")):
        process(tmp_path, pid, comm)
    process(tmp_path, "10", "vGPUmonitor")
    (tmp_path / "11").mkdir()  # ended meanwhile
    (tmp_path / "sys").mkdir()
    assert find_exporters(tmp_path) == ("dcgm-exporter", "hami-vgpu-monitor", "nvidia_gpu_exporter")


def test_a_proc_that_cannot_be_read_shows_none(tmp_path: Path) -> None:
    assert find_exporters(tmp_path / "nothing") == ()


def test_a_hostile_name_is_no_exporter(tmp_path: Path) -> None:
    process(tmp_path, "5", "dcgm-exporter\x00x")
    (tmp_path / "6").mkdir()
    (tmp_path / "6" / "comm").write_bytes(b"\xff\xfe\n")
    assert find_exporters(tmp_path) == ()
