"""Whose namespaces are: from a file, and from the annotation that Kubeflow gives each profile's namespace."""

import logging
import threading
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct, field

from gpusight.analysis.tenancy import Tenancy, Tenant
from gpusight.sources.kubernetes.access import AccessError
from gpusight.sources.kubernetes.client import ApiClient, ApiError

_log = logging.getLogger("gpusight.tenants")
_OWNER = "owner"
"""Kubeflow's annotation, with the profile owner's address."""
_REFRESH = 600.0
_RETRY = 60.0
_MOST_PAGES = 1000


class _Metadata(Struct):
    name: str = ""
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class _Namespace(Struct):
    metadata: _Metadata = field(default_factory=_Metadata)


class _ListMetadata(Struct, rename={"resume": "continue"}):
    resume: str = ""


class _Page(Struct):
    items: list[msgspec.Raw] | None = None
    metadata: _ListMetadata = field(default_factory=_ListMetadata)


def namespace_tenants(client: ApiClient, team_label: str) -> dict[tuple[str, str], Tenant]:
    """One listing. A namespace that cannot be decoded costs itself."""
    found: dict[tuple[str, str], Tenant] = {}
    for raw in _namespaces(client):
        try:
            metadata = msgspec.json.decode(raw, type=_Namespace).metadata
        except msgspec.DecodeError:
            continue
        owner, team = (metadata.annotations or {}).get(_OWNER, ""), (metadata.labels or {}).get(team_label, "")
        tenant = Tenant(owner, team)
        if metadata.name and any(tenant):
            found["", metadata.name] = tenant
    return found


def _namespaces(client: ApiClient) -> Iterator[bytes]:
    query = {"limit": "500"}
    for _ in range(_MOST_PAGES):
        try:
            page = msgspec.json.decode(client.get("/api/v1/namespaces", query), type=_Page)
        except msgspec.DecodeError as error:
            raise ApiError("bad_answer", f"the list of namespaces cannot be read: {error}") from error
        yield from page.items or ()
        if not page.metadata.resume:
            return
        query = {"limit": "500", "continue": page.metadata.resume}


class TenantsWatch:
    """The file's tenants over the cluster's, the latter listed anew every ten minutes."""

    def __init__(self, declared: Tenancy, client: ApiClient | None, team_label: str) -> None:
        self._declared = declared
        self._client = client
        self._team_label = team_label
        self._current = declared
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="tenants", daemon=True)

    def start(self) -> None:
        if self._client is not None:
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def tenancy(self) -> Tenancy:
        return self._current

    def _refresh(self) -> None:
        while not self._stopping.wait(_REFRESH if self._list() else _RETRY):
            pass

    def _list(self) -> bool:
        if self._client is None:
            return True
        try:
            listed: Mapping[tuple[str, str], Tenant] = namespace_tenants(self._client, self._team_label)
        except (ApiError, AccessError) as error:
            _log.warning("the namespaces' owners cannot be listed: %s", error)
            return False
        self._current = Tenancy({**listed, **self._declared.tenants})
        return True
