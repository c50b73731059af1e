"""The driver and its GPUs, asked through the child process that may hang in our stead."""

from collections.abc import Iterator
from pathlib import Path

from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, NotChecked, Private, fail, listed, ok, warn
from gpusight.doctor.subject import Subject
from gpusight.model.hardware import HardwareSnapshot
from gpusight.sources.nvml.supervisor import Deadlines, NvmlSource

_NVIDIA = "0x10de"
_DISPLAY = "0x03"
"""The PCI class of display controllers begins so; a network card of the vendor's is no GPU."""


def read_hardware(subject: Subject) -> HardwareSnapshot:
    patience = subject.nvml_patience
    deadlines = Deadlines(read=patience, hang=patience, opening=patience, goodbye=0.5)
    source = NvmlSource(subject.nvml_command, subject.clock, deadlines)
    try:
        return source.read(patience)
    finally:
        source.close()


def driver(exam: Exam) -> Finding:
    snapshot = exam.hardware()
    if snapshot.is_up:
        outcome = "nvml.simulated" if snapshot.is_simulated else "nvml.up"
        return ok(
            outcome, driver=snapshot.driver_version or "?", cuda=snapshot.cuda_version or "?", gpus=len(snapshot.gpus)
        )
    gpus = sum(_is_gpu(device) for device in _pci_devices(exam.subject.sysfs))
    if gpus or snapshot.reason not in ("no_library", "no_driver"):
        return fail(f"nvml.{snapshot.reason}", gpus=gpus, detail=snapshot.detail)
    if exam.subject.needs("node"):
        return fail("nvml.no-gpu")
    raise NotChecked("nvml.no-gpu")


def devices(exam: Exam) -> Finding:
    snapshot = _up(exam)
    if snapshot.down:
        shown = listed(f"{device.index} ({device.reason})" for device in snapshot.down)
        return fail("nvml.devices-down", down=len(snapshot.down), devices=shown)
    if not snapshot.gpus:
        return warn("nvml.no-devices")
    return ok("nvml.devices-ok", gpus=len(snapshot.gpus), models=listed(sorted({gpu.name for gpu in snapshot.gpus})))


def pids(exam: Exam) -> Finding:
    """The driver speaks of the host's process ids; in a container of its own they mean nothing."""
    listed_pids = {process.pid for gpu in _up(exam).gpus for process in gpu.processes or ()}
    if not listed_pids:
        raise NotChecked("nvml.no-processes")
    unseen = [pid for pid in sorted(listed_pids) if not (exam.subject.procfs / str(pid)).exists()]
    if len(unseen) == len(listed_pids):
        path = Private(exam.subject.procfs)
        return warn("nvml.pids-unseen", unseen=len(unseen), count=len(listed_pids), path=path)
    return ok("nvml.pids-ok", count=len(listed_pids) - len(unseen))


def _up(exam: Exam) -> HardwareSnapshot:
    snapshot = exam.hardware()
    if not snapshot.is_up:
        raise NotChecked("nvml.down")
    return snapshot


def _pci_devices(sysfs: Path) -> Iterator[Path]:
    try:
        yield from (sysfs / "bus/pci/devices").iterdir()
    except OSError:
        return


def _is_gpu(device: Path) -> bool:
    try:
        return (device / "vendor").read_text().strip() == _NVIDIA and (device / "class").read_text().startswith(
            _DISPLAY
        )
    except (OSError, UnicodeDecodeError):
        return False
