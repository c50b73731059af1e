"""What is checked, as plain values: made from settings by runtime, from literals by tests."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from gpusight.model.series import Quantity
from gpusight.model.time import Clock

if TYPE_CHECKING:
    from gpusight.sources.kubernetes.access import Access
    from gpusight.store.prometheus import PrometheusConfig

T = TypeVar("T")


class Listen(NamedTuple):
    """A role and an address that it would listen on."""

    role: str
    address: str
    port: int


class NamedFile(NamedTuple):
    """A file that a setting names. `load` reads it as its role would, and raises with a sentence if it cannot."""

    setting: str
    path: Path
    is_secret: bool
    load: Callable[[], object] | None = None


class SettingsReport(NamedTuple):
    """What is wrong with the settings, each as a sentence."""

    known: int
    """How many settings there are."""
    problems: tuple[str, ...] = ()
    file: Path | None = None
    file_problem: str = ""
    unknown_variables: tuple[str, ...] = ()
    check_criteria: Callable[[], object] = lambda: None


class Ai(NamedTuple):
    enabled: bool = False
    url: str = ""
    has_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One installation. What costs something to make, or may be wrong, is a function that raises with a sentence."""

    clock: Clock
    roles: frozenset[str]
    """That checks are wanted for."""
    asked: frozenset[str] = frozenset()
    """Roles that the user named: what they need and do not have is a failure, not a warning."""
    settings: SettingsReport
    files: tuple[NamedFile, ...] = ()
    missing: Callable[[str], tuple[str, ...]] = lambda _extra: ()
    """Packages of an extra that are not installed."""
    extras: Mapping[str, str] = field(default_factory=dict)
    """Extras, each with who needs it here; nobody is empty text."""
    network_patience: float = 5.0
    """Seconds for one question to a server."""

    nvml_command: tuple[str, ...] | None = None
    nvml_patience: float = 8.0
    node_name: str = ""
    vgpu_dir: Path = Path("/usr/local/vgpu/containers")
    procfs: Path = Path("/proc")
    sysfs: Path = Path("/sys")
    pod_logs: Path = Path("/var/log/pods")
    kubelet_socket: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")

    kubernetes: "Callable[[], Access]"
    kubernetes_needed_by: Mapping[str, str] = field(default_factory=dict)
    """By resource, the setting that needs it."""

    store: str = "prometheus"
    prometheus: "Callable[[], PrometheusConfig]"
    prometheus_is_given: bool = False
    """Or is it the default address."""
    weights: Mapping[Quantity, float] = field(default_factory=dict)
    stale_after: float = 150.0
    recorded_names: Callable[[], frozenset[str]] = frozenset
    """What the recording rules for these settings record."""
    scrape_targets: tuple[str, ...] = ()
    ai: Ai = field(default_factory=Ai)

    listen: tuple[Listen, ...] = ()
    data_dir: Path
    store_max_bytes: int = 0
    store_file: Path | None = None
    journal: str | Path = field(repr=False)

    def needs(self, *roles: str) -> bool:
        """Whether the user named one of these roles."""
        return not self.asked.isdisjoint(roles)


class Once(Generic[T]):
    """A value that the first thread to ask makes, for all; if that fails, it fails for all."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: list[T] = []
        self._failed: Exception | None = None

    @property
    def made(self) -> T | None:
        """Without making it."""
        return self._made[0] if self._made else None

    def __call__(self) -> T:
        with self._lock:
            if self._failed:
                raise self._failed
            if not self._made:
                try:
                    self._made.append(self._make())
                except Exception as error:
                    self._failed = error
                    raise
            return self._made[0]
