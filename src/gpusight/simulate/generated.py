"""Fleets of any size: the machines of the demo over and over, each under names of its own. Nothing here is random."""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from hashlib import blake2b
from typing import Any, Final

from gpusight.simulate.section import SpecError

MOST_GPUS: Final = 100_000
_NAME: Final = re.compile(r"generated:([0-9]{1,6})(?:,([0-9]{1,9}))?")
_TAIL: Final = re.compile(r"(-[0-9a-f]{8,10}-[a-z0-9]{5}|-[a-z0-9]{5}|-\d+)?$")
"""What a controller puts behind its own name to name a pod."""

Data = dict[str, Any]


def generate(model: Mapping[str, Any], name: str) -> Data:
    """A fleet of `generated:GPUS[,SEED]` in the shape of a spec; the same name gives the same fleet."""
    found = _NAME.fullmatch(name)
    gpus = int(found[1]) if found else 0
    if not found or not 0 < gpus <= MOST_GPUS:
        raise SpecError(
            f"{name}: a generated fleet is generated:GPUS or generated:GPUS,SEED, with 1 to {MOST_GPUS} GPUs."
        )
    fleet: Data = {"seed": int(found[2] or model["seed"]), "cluster": model["cluster"]}
    fleet |= {"nodes": [], "workloads": [], "faults": []}
    for copy, node in _nodes(model, gpus):
        _add(fleet, model, copy, node)
    return fleet


def _nodes(model: Mapping[str, Any], gpus: int) -> Iterator[tuple[int, Data]]:
    """The model's nodes round after round, the last one cut to what is left."""
    copy, left = 1, gpus
    while True:
        for node in model["nodes"]:
            made = deepcopy(node)
            made["gpus"] = list(_cut(made["gpus"], left))
            yield copy, made
            left -= sum(group.get("count", 1) for group in made["gpus"])
            if left <= 0:
                return
        copy += 1


def _cut(groups: list[Data], left: int) -> Iterator[Data]:
    for group in groups:
        count = min(group.get("count", 1), left)
        if count > 0:
            yield {**group, "count": count}
        left -= count


def _add(fleet: Data, model: Mapping[str, Any], copy: int, node: Data) -> None:
    """One node with all that is on it, as far as it has the GPUs for it."""
    old, size = node["name"], sum(group.get("count", 1) for group in node["gpus"])
    new = _renamed(old, copy)
    fleet["nodes"].append({**node, "name": new})
    for workload in model["workloads"]:
        if workload["node"] == old and (there := [gpu for gpu in workload["gpus"] if gpu < size]):
            fleet["workloads"].append(_workload({**workload, "gpus": there}, new, copy, fleet["seed"]))
    for fault in model["faults"]:
        if fault["node"] == old and fault["gpu"] < size:
            fleet["faults"].append({**fault, "node": new, "at": fault["at"] + (copy - 1) * 600})


def _workload(workload: Data, node: str, copy: int, seed: int) -> Data:
    """The first copy is the model itself; the others began at other times."""
    if copy == 1:
        return {**workload, "node": node}
    made = {**workload, "node": node, "pod": _renamed(workload["pod"], copy)}
    if "owner" in workload:
        made["owner"] = f"{workload['owner']}-{copy}"
    if workload["starts"] < 0:
        stretch = 0.5 + _noise(seed, node, workload["pod"])
        for key in ("starts", "ends"):
            made |= {key: round(workload[key] * stretch)} if key in workload else {}
    return made


def _renamed(name: str, copy: int) -> str:
    """`server-0` becomes `server-2-0`: its number stays at the end."""
    return name if copy == 1 else _TAIL.sub(lambda tail: f"-{copy}{tail[0]}", name, count=1)


def _noise(*parts: object) -> float:
    """0 to 1, the same for the same parts in every process."""
    text = "/".join(map(str, parts))
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest()) / 2**32
