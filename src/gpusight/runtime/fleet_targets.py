"""What to scrape of an agent that serves a simulated fleet."""

from gpusight.simulate.pages import CLUSTER_PAGE, node_pages
from gpusight.simulate.spec import FleetSpec
from gpusight.store.scrape_target import ScrapeTarget, target


def fleet_targets(spec: FleetSpec, address: str, timeout: float = 10.0) -> list[ScrapeTarget]:
    """A target per page of the agent at `http://host:port`, under names that stay when the port does not.

    A node's page leaves its cluster to whoever scrapes it; the page about pods names clusters itself.
    """
    clusters = {node.name: node.cluster for node in spec.nodes}
    nodes = [
        target(
            f"{address}{path}",
            job="gpusight-node",
            instance=name,
            labels={"cluster": clusters[name]},
            timeout=timeout,
        )
        for name, path in node_pages(spec).items()
    ]
    return [*nodes, target(f"{address}{CLUSTER_PAGE}", job="gpusight-cluster", instance="cluster", timeout=timeout)]
