"""Where the pages of a simulated fleet are: the agent serves them there, and whoever scrapes it looks there."""

from collections.abc import Mapping
from typing import Final

from gpusight.simulate.spec import FleetSpec

CLUSTER_PAGE: Final = "/cluster/metrics"
_ONLY: Final = "/metrics"


def node_pages(spec: FleetSpec, node: str | None = None) -> Mapping[str, str]:
    """By node the path of its page; of all nodes, or of one that is served alone."""
    names = [each.name for each in spec.nodes] if node is None else [node]
    return {names[0]: _ONLY} if len(names) == 1 else {name: f"/node/{name}/metrics" for name in names}
