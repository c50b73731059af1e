"""Whose a namespace is, and what a GPU-hour costs: what people declare or a cluster says."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Tenant(NamedTuple):
    owner: str = ""
    team: str = ""


_NOBODY = Tenant()


@dataclass(frozen=True, slots=True)
class Tenancy:
    """Tenants by (cluster, namespace); an entry for the cluster `` holds for every cluster."""

    tenants: Mapping[tuple[str, str], Tenant] = field(default_factory=dict)

    def of(self, cluster: str, namespace: str) -> Tenant:
        return self.tenants.get((cluster, namespace)) or self.tenants.get(("", namespace)) or _NOBODY


@dataclass(frozen=True, slots=True)
class PriceList:
    """Price of one GPU-hour by model; the first pattern that is found in the model's name holds."""

    currency: str = ""
    prices: tuple[tuple[str, float], ...] = ()

    def per_gpu_hour(self, model: str) -> float | None:
        name = model[:128]  # what is longer is no model, and would only keep the patterns busy
        return next((price for pattern, price in self.prices if re.search(pattern, name, re.IGNORECASE)), None)
