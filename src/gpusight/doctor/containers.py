"""What a node knows of containers: libvgpu's files, the kubelet's grants, the names of pods."""

from collections import Counter

from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, NotChecked, bad, fail, listed, ok, skip, warn
from gpusight.model.vgpu import VgpuSnapshot
from gpusight.sources.neighbours import find_exporters
from gpusight.sources.podresources.source import PodResources
from gpusight.sources.vgpu.scan import VgpuSource

_HARMLESS = {"not_ready"}
"""A container that is about to begin."""


def neighbours(exam: Exam) -> Finding:
    found = find_exporters(exam.subject.procfs)
    return warn("neighbours.found", names=", ".join(found)) if found else ok("neighbours.none")


def vgpu_dir(exam: Exam) -> Finding:
    path = exam.subject.vgpu_dir
    try:
        entries = list(path.iterdir())
    except FileNotFoundError:
        return skip("vgpu.no-dir", path=path)
    except OSError as error:
        return fail("vgpu.dir-unreadable", path=path, detail=error.strerror)
    return ok("vgpu.dir-ok", path=path, count=len(entries))


def vgpu_regions(exam: Exam) -> Finding:
    snapshot = _scan(exam)
    layouts = Counter(each.region.layout for each in snapshot.containers if each.region)
    shown = ", ".join(f"{layout}: {count}" for layout, count in sorted(layouts.items()))
    problems = [(reason, count) for reason, count in snapshot.problems if reason not in _HARMLESS]
    if problems:
        reasons = listed(f"{reason}: {count}" for reason, count in problems)
        return bad(not layouts, "vgpu.problems", reasons=reasons, layouts=shown or "-")
    empty = sum(1 for each in snapshot.containers if each.region is None)
    if not layouts:
        if empty:
            return warn("vgpu.empty", count=empty)
        raise NotChecked("vgpu.no-containers")
    return ok("vgpu.regions-ok", count=layouts.total(), layouts=shown, empty=empty)


def _scan(exam: Exam) -> VgpuSnapshot:
    snapshot = VgpuSource(exam.subject.vgpu_dir, exam.subject.clock).read()
    if not snapshot.is_present:
        raise NotChecked("vgpu.no-dir", path=exam.subject.vgpu_dir)
    return snapshot


def kubelet(exam: Exam) -> Finding:
    socket = exam.subject.kubelet_socket
    reading = PodResources(socket, exam.subject.clock, within=exam.subject.network_patience).read()
    if reading.is_up:
        return ok("kubelet.ok", devices=len(reading.devices), claims=len(reading.claims))
    if reading.reason == "no_socket" and not socket.parent.parent.exists():
        return skip("kubelet.none", path=socket)
    return fail(f"kubelet.{reading.reason}", path=socket, detail=reading.detail)


def pod_logs(exam: Exam) -> Finding:
    path = exam.subject.pod_logs
    try:
        count = len(list(path.iterdir()))
    except FileNotFoundError:
        return skip("pods.no-logs", path=path)
    except OSError as error:
        return warn("pods.logs-unreadable", path=path, detail=error.strerror)
    return ok("pods.logs-ok", path=path, count=count)
