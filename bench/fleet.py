"""A real Prometheus with a synthetic fleet, what the published analyzer asks of it, and what rules would record."""

import json
import random
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from gpusight.rules.recording import recording_rules
from gpusight.store.digest import FAMILIES
from tests.support.remote_write import Series, encoded, writable_prometheus, write

_WINDOW, _STEP = 600.0, 30.0
_CONDITION = '{pod!=""}'
_ROUNDS = 3
_SAMPLE = 200
_PATTERNS = 64
_SEED_METRICS = ("GPU_UTIL", "MEM_COPY_UTIL", "FB_USED", "FB_FREE", "POWER_USAGE", "SM_CLOCK")
_SEED_THREADS = 8
_PEER = "a query per GPU and metric"


class Fleet(NamedTuple):
    url: str
    now: float
    gpus: int


@contextmanager
def fleet_of(gpus: int) -> Iterator[Fleet]:
    """A Prometheus with the last ten minutes of so many GPUs."""
    with tempfile.TemporaryDirectory() as directory, writable_prometheus(Path(directory)) as url:
        now = time.time() // _STEP * _STEP
        write(url, _series(gpus, now))
        yield Fleet(url, now, gpus)


def _series(gpus: int, now: float) -> Iterator[Series]:
    """What dcgm-exporter's default set has of the quantities that a round asks for; 30 % of the GPUs are idle."""
    histories = {family: _histories(family, now) for family in FAMILIES if family != "DCGM_FI_PROF_SM_ACTIVE"}
    for gpu in range(gpus):
        labels = _labels(gpu)
        for family, patterns in histories.items():
            yield Series({"__name__": family, **labels}, patterns[gpu % _PATTERNS])


def _labels(gpu: int) -> dict[str, str]:
    node = gpu // 8
    return {
        "UUID": _uuid(gpu),
        "gpu": str(gpu % 8),
        "device": f"nvidia{gpu % 8}",
        "modelName": "NVIDIA H100 80GB HBM3",
        "Hostname": f"node-{node:05d}",
        "pci_bus_id": f"00000000:{gpu % 8:02X}:00.0",
        "DCGM_FI_DRIVER_VERSION": "550.54.15",
        "job": "dcgm-exporter",
        "instance": f"10.{node // 250}.{node % 250}.1:9400",
        "namespace": f"team-{gpu % 50}",
        "pod": f"train-{gpu:06d}-abcde",
        "container": "main",
    }


def _uuid(gpu: int) -> str:
    return f"GPU-{gpu:08x}-1111-2222-3333-{gpu:012x}"


def _histories(family: str, now: float) -> list[bytes]:
    times = [now - _STEP * ago for ago in reversed(range(int(_WINDOW / _STEP) + 1))]
    return [encoded([(time, _value(family, pattern, dice)) for time in times]) for pattern, dice in _dice(family)]


def _dice(family: str) -> Iterator[tuple[int, random.Random]]:
    return ((pattern, random.Random(f"{family} {pattern}")) for pattern in range(_PATTERNS))


def _value(family: str, pattern: int, dice: random.Random) -> float:
    if "UTIL" not in family and "PROF" not in family:
        return float(dice.randrange(400, 700))
    if pattern < 0.3 * _PATTERNS:
        return 0.0
    if family.endswith("ACTIVE"):
        return round(dice.uniform(0, 1), 6)
    return float(dice.randrange(1, 100) if "UTIL" in family else dice.randrange(10**9))


def seed_way(fleet: Fleet) -> float:
    """Seconds per GPU of the published analyzer's queries, on a sample of GPUs all over the fleet."""
    import requests

    def ask(gpu: int) -> None:
        for metric in _SEED_METRICS:
            parameters: dict[str, str | float] = {
                "query": f'DCGM_FI_DEV_{metric}{{pod!="", UUID="{_uuid(gpu)}"}}',
                "start": fleet.now - _WINDOW,
                "end": fleet.now,
                "step": "30s",
            }
            answer = requests.get(f"{fleet.url}/api/v1/query_range", params=parameters, timeout=10).json()
            values = [float(value) for _, value in answer["data"]["result"][0]["values"]]
            assert len(values) == 21

    gpus: Sequence[int] = range(0, fleet.gpus, fleet.gpus // _SAMPLE)
    began = time.perf_counter()
    with ThreadPoolExecutor(_SEED_THREADS) as pool:
        list(pool.map(ask, gpus))
    return (time.perf_counter() - began) / len(gpus)


def record(fleet: Fleet) -> None:
    """What Prometheus would record at this moment, without waiting for the moment."""
    for rule in recording_rules(_STEP, _WINDOW, _CONDITION):
        form = urllib.parse.urlencode({"query": rule.expr, "time": fleet.now}).encode()
        with urllib.request.urlopen(f"{fleet.url}/api/v1/query", form, timeout=120) as answer:
            rows = json.load(answer)["data"]["result"]
        samples = (({"__name__": rule.record, **row["metric"]}, float(row["value"][1])) for row in rows)
        write(fleet.url, (Series(labels, [(fleet.now, value)]) for labels, value in samples))
