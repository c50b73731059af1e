"""The nodes of a fleet behind one real child, each read as a machine of its own."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpusight.model.hardware import HardwareSnapshot
from gpusight.model.time import SystemClock
from gpusight.simulate.faults import inject
from gpusight.simulate.fleet import place
from gpusight.simulate.spec import load_spec
from gpusight.sources.nvml.supervisor import NvmlPart, NvmlSource, Part, child_command
from tests.sources.test_nvml_helpers import QUICK, until

SIZES = {"a": 2, "b": 1, "c": 3}


class Fleet:
    def __init__(self, folder: Path) -> None:
        nodes = [{"name": name, "gpus": [{"model": "t4", "count": size}]} for name, size in SIZES.items()]
        spec, self._control = folder / "fleet.yaml", folder / "control.json"
        spec.write_text(json.dumps({"nodes": nodes}))
        inject(self._control, [])
        self.uuids = {name: [gpu.uuid for gpu in place(load_spec(spec), name).gpus] for name in SIZES}
        self.source = NvmlSource(child_command(str(spec), "*", str(self._control)), SystemClock(), QUICK)
        self.parts = {
            "a": NvmlPart(self.source, Part(0, 2)),
            "b": NvmlPart(self.source, Part(2, 1)),
            "c": NvmlPart(self.source, Part(3, 3)),
        }

    def read(self, node: str) -> HardwareSnapshot:
        return self.parts[node].read(5)

    def faults(self, *faults: dict[str, Any]) -> None:
        inject(self._control, faults)


@contextmanager
def fleet(folder: Path) -> Iterator[Fleet]:
    made = Fleet(folder)
    try:
        yield made
    finally:
        made.source.close()


def test_each_node_has_its_own_devices_from_0_on(tmp_path: Path) -> None:
    with fleet(tmp_path) as made:
        for name, size in SIZES.items():
            read = made.read(name)
            assert read.is_up
            assert read.is_simulated
            assert [gpu.uuid for gpu in read.gpus] == made.uuids[name]
            assert [gpu.index for gpu in read.gpus] == list(range(size))
        assert made.source.health().started == 1
        assert [gpu.index for gpu in made.source.read(5).gpus] == list(range(6))


def test_what_is_down_on_one_node_is_down_there_only(tmp_path: Path) -> None:
    with fleet(tmp_path) as made:
        made.read("c")
        made.faults({"kind": "gpu_lost", "node": "c", "gpu": 1}, {"kind": "init_failure", "node": "b"})
        c, b, a = (made.read(name) for name in ("c", "b", "a"))
        assert [(one.index, one.reason, one.uuid) for one in c.down] == [(1, "lost", made.uuids["c"][1])]
        assert [gpu.index for gpu in c.gpus] == [0, 2]
        assert (b.is_up, b.reason) == (False, "no_driver")
        assert len(a.gpus) == 2
        assert not a.down
        made.faults()
        assert made.read("b").is_up
        assert made.source.health().started == 1, "the others still needed the child"


def test_an_xid_waits_for_whoever_reads_its_device(tmp_path: Path) -> None:
    with fleet(tmp_path) as made:
        for name in SIZES:
            made.read(name)
        sent: list[dict[str, Any]] = []
        others: list[object] = []

        def came() -> bool:  # one that happens before somebody listens is told to nobody
            sent.append({"kind": "xid", "node": "c", "gpu": 2, "code": 31})
            made.faults(*sent)
            time.sleep(0.1)
            others.extend(made.read("a").xids)
            xids = made.read("c").xids
            return bool(xids) and {(one.uuid, one.xid) for one in xids} == {(made.uuids["c"][2], 31)}

        until(came)
        assert not others
