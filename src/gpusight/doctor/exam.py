"""One run of the checks: the subject, and what several checks ask of it only once."""

from contextlib import ExitStack
from typing import TYPE_CHECKING

from gpusight.doctor.subject import Once, Subject
from gpusight.model.hardware import HardwareSnapshot

if TYPE_CHECKING:
    from gpusight.doctor.kubernetes import Cluster
    from gpusight.doctor.prometheus import Prometheus


class Exam:
    """Safe for threads."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._closing = ExitStack()
        self.hardware = Once(self._read_hardware)
        self.prometheus = Once(self._reach_prometheus)
        """Raises NotChecked unless it answers."""
        self.cluster = Once(self._reach_cluster)
        """Likewise."""

    def close(self) -> None:
        self._closing.close()

    def families_seen(self) -> frozenset[str]:
        """Names of families that Prometheus has, if somebody asked for them."""
        prometheus = self.prometheus.made
        return (prometheus.names.made if prometheus else None) or frozenset()

    def _read_hardware(self) -> HardwareSnapshot:
        from gpusight.doctor.hardware import read_hardware  # noqa: PLC0415 - only if it is asked for

        return read_hardware(self.subject)

    def _reach_prometheus(self) -> "Prometheus":
        from gpusight.doctor.prometheus import reach  # noqa: PLC0415 - needs an extra

        found = reach(self.subject)
        self._closing.callback(found.close)
        return found

    def _reach_cluster(self) -> "Cluster":
        from gpusight.doctor.kubernetes import reach  # noqa: PLC0415 - only if it is asked for

        return reach(self.subject)
