"""The child beside a library of its own: one written in C, loaded as the driver's would be."""

import logging
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpusight.model.time import SystemClock
from gpusight.sources.nvml.supervisor import Deadlines, NvmlSource, child_command
from gpusight.sources.nvml.xid import MOST_PER_ANSWER
from tests.sources.test_nvml_helpers import QUICK, is_running, memory_of, until

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")

_SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef unsigned u32;
typedef unsigned long long u64;
static char devices[64];
static long setting(const char *name, long otherwise) { char *s = getenv(name); return s ? atol(s) : otherwise; }

int nvmlInitWithFlags(u32 flags) { sleep(setting("FAKE_INIT_SECONDS", 0)); return setting("FAKE_INIT_CODE", 0); }
int nvmlDeviceGetCount_v2(u32 *n) { *n = setting("FAKE_DEVICES", 8); return 0; }
int nvmlDeviceGetHandleByIndex_v2(u32 i, void **handle) { *handle = &devices[i]; return 0; }
int nvmlDeviceGetUUID(void *d, char *out, u32 size) {
  long index = (char *)d - devices, kind = setting("FAKE_UUID", 0);
  if (kind == 1 && index < 2) index = 0;                                       /* two with the same name */
  if (kind == 2 && index == 0) { memset(out, 'x', size); return 0; }           /* no end */
  if (kind == 3 && index == 0) { memcpy(out, "\xff\xfe", 3); return 0; }       /* no text */
  snprintf(out, size, kind == 4 && index == 0 ? "" : "GPU-%ld", index);
  return 0;
}
int nvmlDeviceGetName(void *d, char *out, u32 size) { strcpy(out, "Fake"); return 0; }
int nvmlDeviceGetPowerUsage(void *d, u32 *out) {
  long index = (char *)d - devices;
  if (index == setting("FAKE_ABORT", -1)) abort();
  if (index == setting("FAKE_SEGFAULT", -1)) *(volatile int *)0 = 1;
  if (index == setting("FAKE_BLOCK", -1)) sleep(60);
  *out = setting("FAKE_POWER", 100000);
  return 0;
}
struct process { u32 pid; u64 memory; u32 gi, ci; };
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, u32 *n, struct process *out) {
  u32 room = *n;
  *n = 5;
  if (!out || room < *n) return 7;
  for (u32 i = 0; i < *n; i++) out[i] = (struct process){1000 + i, 1 << 30, -1, -1};
  return 0;
}
struct event { void *device; u64 type, data; u32 gi, ci; };
int nvmlEventSetCreate(void **set) { *set = devices; return 0; }
int nvmlDeviceRegisterEvents(void *d, u64 types, void *set) { return 0; }
int nvmlEventSetWait_v2(void *set, struct event *out, u32 milliseconds) {
  static long sent;
  if (sent == setting("FAKE_XIDS", 0)) { usleep(milliseconds * 1000); return 10; }
  *out = (struct event){&devices[sent % 3 ? 0 : 1], 8, sent % 10 ? 31 : 79, -1, -1};
  sent++;
  return 0;
}
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    (folder / "fake.c").write_text(_SOURCE)
    target = folder / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", target, folder / "fake.c"], check=True)
    return target


@contextmanager
def beside(folder: Path, deadlines: Deadlines = QUICK, **settings: int) -> Iterator[NvmlSource]:
    """A source whose child finds its library in a folder, and settings in its environment."""
    environment = [f"FAKE_{name.upper()}={value}" for name, value in settings.items()]
    source = NvmlSource(("env", f"LD_LIBRARY_PATH={folder}", *environment, *child_command()), SystemClock(), deadlines)
    try:
        yield source
    finally:
        source.close()


def test_a_library_that_knows_hardly_anything(library: Path) -> None:
    """As an old driver: what it does not have is absent, what it has is read."""
    with beside(library.parent) as source:
        snapshot = source.read(5)
        assert snapshot.is_up
        assert not snapshot.is_simulated
        assert (snapshot.driver_version, snapshot.cuda_version) == (None, None)
        assert [gpu.uuid for gpu in snapshot.gpus] == [f"GPU-{index}" for index in range(8)]
        gpu = snapshot.gpus[0]
        assert (gpu.power_watts, gpu.temperature_celsius, gpu.memory_total, gpu.name) == (100.0, None, None, "Fake")
        assert len(gpu.processes or ()) == 5
        assert not gpu.is_unified_memory


def test_a_library_that_is_missing_and_comes_later(
    library: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No restart of the agent is needed, and the log says each thing once."""
    with beside(tmp_path) as source, caplog.at_level(logging.INFO, "gpusight.sources.nvml"):
        for _ in range(4):
            snapshot = source.read(5)
            assert (snapshot.is_up, snapshot.reason, snapshot.gpus, snapshot.down) == (False, "no_library", (), ())
            time.sleep(0.06)
        shutil.copy(library, tmp_path)
        until(lambda: source.read(5).is_up)
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [(9, "no_driver"), (18, "version_mismatch"), (4, "no_permission"), (999, "error"), (77, "error")],
)
def test_a_library_that_does_not_open(library: Path, code: int, reason: str) -> None:
    with beside(library.parent, init_code=code) as source:
        snapshot = source.read(5)
        assert (snapshot.is_up, snapshot.reason) == (False, reason)


@pytest.mark.parametrize(("fault", "name"), [("abort", "SIGABRT"), ("segfault", "SIGSEGV")])
def test_a_library_that_takes_the_process_down(library: Path, fault: str, name: str) -> None:
    with beside(library.parent, QUICK, **{fault: 3}) as source:
        snapshot = source.read(5)
        assert (snapshot.reason, snapshot.detail) == ("crashed", f"the NVML child was killed by {name}")
        for _ in range(3):
            assert source.read(5).reason == "crashed"
            assert source.health().alive <= 1


def test_a_call_that_sleeps_in_the_library_costs_its_device_only(library: Path) -> None:
    """Without the interpreter's lock, as in a driver: threads of the other devices go on."""
    with beside(library.parent, block=6) as source:
        snapshot = until(lambda: (seen := source.read(0.6)).is_up and seen)
        assert [gpu.index for gpu in snapshot.gpus] == [0, 1, 2, 3, 4, 5, 7]
        assert [(down.index, down.reason, down.uuid) for down in snapshot.down] == [(6, "blocked", "GPU-6")]
        started = time.monotonic()
        assert len(source.read().gpus) == 7
        assert time.monotonic() - started < 0.5


@pytest.mark.parametrize(("kind", "bad"), [(1, [0, 1]), (2, [0]), (3, [0]), (4, [0])])
def test_devices_that_cannot_be_told_apart_are_down(library: Path, kind: int, bad: list[int]) -> None:
    """The same UUID twice, one without an end, one that is no text, none at all."""
    with beside(library.parent, uuid=kind, devices=4) as source:
        snapshot = source.read(5)
        assert snapshot.is_up
        assert [(down.index, down.reason, down.uuid) for down in snapshot.down] == [
            (index, "bad_identity", None) for index in bad
        ]
        assert [gpu.index for gpu in snapshot.gpus] == [index for index in range(4) if index not in bad]


def test_values_that_cannot_be_true_are_counted(library: Path) -> None:
    with beside(library.parent, power=-1, devices=2) as source:
        snapshot = source.read(5)
        assert [down.reason for down in snapshot.down] == ["error", "error"], "it had nothing else to say"
        source.read(5)
        assert source.implausible() == {"power_watts": 4}


def test_a_storm_of_xids_is_counted_exactly(library: Path) -> None:
    """More than one answer carries."""
    storm = MOST_PER_ANSWER + 10_000
    expected = Counter((f"GPU-{0 if number % 3 else 1}", 31 if number % 10 else 79) for number in range(storm))
    with beside(library.parent, xids=storm, devices=2) as source:
        found = Counter[tuple[str, int]]()
        until(lambda: found.update((e.uuid, e.xid) for e in source.read(5).xids) or found.total() >= storm)
        time.sleep(0.05)
        found.update((event.uuid, event.xid) for event in source.read(5).xids)
        assert found == expected


def test_an_end_while_nvml_opens(library: Path) -> None:
    with beside(library.parent, init_seconds=60) as source:
        assert source.read(0.5).reason == "blocked"
        child = source._children.current()
        assert child is not None
        source.close()
        assert child.pid is not None
        assert not is_running(child.pid)


def test_memory_stays_flat(library: Path) -> None:
    """The short version of a day: three times 500 sweeps of 8 devices with 40 processes after 200 to warm up."""
    with beside(library.parent) as source:
        until(lambda: source.read(5).is_up)
        for _ in range(200):
            source.read(5)
        child = source._children.current()
        assert child is not None
        grown = []
        for _ in range(3):  # something else in this process may grow, but not each time
            before = memory_of(child.pid), memory_of()
            for _ in range(500):
                source.read(5)
            grown.append(max(memory_of(child.pid) - before[0], memory_of() - before[1]))
        assert source.health().started == 1
        assert min(grown) < 512 * 1024
        assert memory_of(child.pid) < 25 * 1024 * 1024
