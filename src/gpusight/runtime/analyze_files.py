"""The files in which people say whose a namespace is and what a GPU-hour costs."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from gpusight.analysis.tenancy import PriceList, Tenancy, Tenant
from gpusight.errors import StartError

T = TypeVar("T")
_LARGEST = 8 << 20


class _TenantEntry(Struct, forbid_unknown_fields=True):
    owner: str = ""
    team: str = ""


class _TenantsFile(Struct, forbid_unknown_fields=True):
    """`clusters` is for names that mean different people in different clusters."""

    namespaces: dict[str, _TenantEntry] = field(default_factory=dict)
    clusters: dict[str, dict[str, _TenantEntry]] = field(default_factory=dict)


class _PricesFile(Struct, forbid_unknown_fields=True):
    currency: str
    models: dict[str, float]


def read_tenants(path: Path) -> Tenancy:
    content = _read(path, _TenantsFile, "tenants file")
    by_cluster: Mapping[str, Mapping[str, _TenantEntry]] = {"": content.namespaces, **content.clusters}
    return Tenancy(
        {
            (cluster, namespace): Tenant(entry.owner, entry.team)
            for cluster, namespaces in by_cluster.items()
            for namespace, entry in namespaces.items()
        }
    )


def read_prices(path: Path) -> PriceList:
    content = _read(path, _PricesFile, "prices file")
    for pattern, price in content.models.items():
        try:
            re.compile(pattern)
        except re.error as error:
            raise StartError(f'prices file {path}: "{pattern}" is not a regular expression: {error}') from error
        if not 0 <= price < float("inf"):
            raise StartError(f'prices file {path}: the price of "{pattern}" is {price:g}, not a number from 0 on')
    return PriceList(content.currency, tuple(content.models.items()))


def _read(path: Path, kind: type[T], what: str) -> T:
    import yaml  # noqa: PLC0415 - only who has such a file waits for it

    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST + 1)
    except OSError as error:
        raise StartError(f"{what} {path} cannot be read: {error.strerror}") from error
    if len(text) > _LARGEST:
        raise StartError(f"{what} {path} is larger than {_LARGEST >> 20} MiB")
    try:
        content: Any = yaml.safe_load(text)
        return msgspec.convert(content if content is not None else {}, kind)
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        raise StartError(f"{what} {path} is not valid YAML: {' '.join(str(error).split())}") from error
    except msgspec.ValidationError as error:
        raise StartError(f"{what} {path}: {error}") from error
