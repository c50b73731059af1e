"""What a node's GPUs and its containers really use: the families of HAMi's vGPU monitor, in every dialect."""

from functools import partial
from typing import NamedTuple

from gpusight.catalog import hami
from gpusight.catalog import labels as label
from gpusight.catalog.spec import FamilySpec, Label, Waiver

_family = partial(FamilySpec, kind="gauge", origin="hami-monitor", endpoint="node")

_LEGACY_HOST = (label.DEVICEIDX, label.DEVICEUUID, label.DEVICETYPE)
_LEGACY_CONTAINER = (label.PODNAMESPACE, label.PODNAME, label.CTRNAME, label.VDEVICEID, label.DEVICEUUID)
_HOST = (label.DEVICE_INDEX, label.DEVICE_UUID, label.DEVICE_TYPE)
_CONTAINER = (label.NAMESPACE, label.POD, label.CONTAINER, label.VDEVICE_INDEX, label.DEVICE_UUID)

# The names of seed 001.

HOST_MEMORY_USED = _family(
    name="HostGPUMemoryUsage",
    unit="bytes",
    labels=_LEGACY_HOST,
    help="Memory in use on the physical GPU, in bytes.",
    superseded_by="hami_host_gpu_memory_used_bytes",
    how_to_read="The driver's count over all processes, whether HAMi manages them or not. Absent for GPUs that share"
    " the machine's memory.",
    waivers=(hami.CAMEL_CASE, hami.UNIT_UNSAID),
)
HOST_UTILIZATION = _family(
    name="HostCoreUtilization",
    unit="percent",
    labels=_LEGACY_HOST,
    help="Share of time in which the physical GPU ran at least one kernel, 0 to 100.",
    superseded_by="hami_host_gpu_utilization_ratio",
    how_to_read="100 may be one tiny kernel that never ends: it says busy, not well used. Absent for GPUs in MIG mode.",
    waivers=(hami.CAMEL_CASE, hami.UNIT_UNSAID, hami.PERCENT),
)
MEMORY_USED = _family(
    name="vGPU_device_memory_usage_in_bytes",
    unit="bytes",
    labels=_LEGACY_CONTAINER,
    help="GPU memory that the container uses, as HAMi's library in it counts.",
    superseded_by="hami_vgpu_memory_used_bytes",
    how_to_read="Only what goes through the intercepted CUDA calls, so it is less than nvidia-smi shows. No series"
    " until a program in the container has used the GPU.",
    waivers=(hami.CAMEL_CASE,),
)
MEMORY_LIMIT = _family(
    name="vGPU_device_memory_limit_in_bytes",
    unit="bytes",
    labels=_LEGACY_CONTAINER,
    help="GPU memory that the container may use; 0 means no limit.",
    superseded_by="hami_vgpu_memory_limit_bytes",
    how_to_read="Guard divisions by it with `> 0`.",
    waivers=(hami.CAMEL_CASE,),
)
CONTAINER_MEMORY = _family(
    name="Device_memory_desc_of_container",
    unit="bytes",
    labels=(*_LEGACY_CONTAINER, label.CONTEXT, label.MODULE_BYTES, label.DATA, label.OFFSET),
    help="GPU memory that the container uses, with its parts as labels.",
    superseded_by="hami_container_device_memory_bytes",
    how_to_read="The same number as the container's memory usage. HAMi means to drop the labels with the parts: take"
    " them from the context, module and buffer families.",
    waivers=(hami.CAMEL_CASE, hami.UNIT_UNSAID, hami.MEASURED_LABEL),
)
UTILIZATION = _family(
    name="Device_utilization_desc_of_container",
    unit="percent",
    labels=_LEGACY_CONTAINER,
    help="Compute that the container's processes use, in percent of the whole GPU.",
    superseded_by="hami_container_device_utilization_ratio",
    how_to_read="A sum over processes, so it may exceed 100. Also 0 where HAMi's library could not find a process's id"
    " on the host: 0 alone does not prove that the container is idle.",
    waivers=(hami.CAMEL_CASE, hami.UNIT_UNSAID, hami.PERCENT),
)
LAST_KERNEL = _family(
    name="Device_last_kernel_of_container",
    unit="seconds",
    labels=_LEGACY_CONTAINER,
    help="Time since the container last started a kernel.",
    superseded_by="hami_container_last_kernel_elapsed_seconds",
    how_to_read="Grows while nothing runs. Any process that attaches to the GPU, even nvidia-smi, sets it back."
    " Absent before the first kernel.",
    waivers=(hami.CAMEL_CASE, hami.UNIT_UNSAID),
)
MEMORY_CONTEXT = _family(
    name="vGPU_device_memory_context_size_bytes",
    unit="bytes",
    labels=_LEGACY_CONTAINER,
    help="GPU memory that the container's CUDA contexts take.",
    superseded_by="hami_vgpu_memory_context_bytes",
    how_to_read="The price of having a CUDA process at all: some hundred MiB for each.",
    waivers=(hami.CAMEL_CASE,),
)
MEMORY_MODULE = _family(
    name="vGPU_device_memory_module_size_bytes",
    unit="bytes",
    labels=_LEGACY_CONTAINER,
    help="GPU memory that the container's loaded modules take.",
    superseded_by="hami_vgpu_memory_module_bytes",
    how_to_read="Current versions of HAMi's library do not count modules: expect 0.",
    waivers=(hami.CAMEL_CASE,),
)
MEMORY_BUFFER = _family(
    name="vGPU_device_memory_buffer_size_bytes",
    unit="bytes",
    labels=_LEGACY_CONTAINER,
    help="GPU memory that the container's programs allocated for data.",
    superseded_by="hami_vgpu_memory_buffer_bytes",
    how_to_read="What the program itself asked for, including pools that a framework keeps without using them.",
    waivers=(hami.CAMEL_CASE,),
)
MIG_INFO = _family(
    name="MigInfo",
    unit="info",
    labels=(*_LEGACY_CONTAINER, label.INSTANCEID),
    help="The MIG device that the container holds, always 1.",
    superseded_by="hami_mig_device_info",
    how_to_read="Containers on MIG devices have no usage series, because HAMi's library is not loaded into them.",
    waivers=(hami.CAMEL_CASE, hami.UNIT_UNSAID),
)
BUILD_INFO = hami.build_info("hami-monitor", "node")

# What v2.10 added or changed beyond names and labels.

HOST_MEMORY_CONTROLLER_UTILIZATION = hami.zoned(
    _family(
        name="hami_host_gpu_memory_controller_utilization_ratio",
        unit="percent",
        labels=_HOST,
        help="Share of time in which the physical GPU read or wrote its memory, 0 to 100.",
        how_to_read="Alone among the host families of v2.10 it has no label `node`. Absent for GPUs in MIG mode.",
        waivers=(hami.UNIT_MISNAMED, hami.PERCENT),
    )
)
_CONTAINER_MEMORY_V2_10 = hami.zoned(
    _family(
        name="hami_container_device_memory_bytes",
        unit="bytes",
        labels=_CONTAINER,
        help="GPU memory that the container uses.",
        how_to_read="The same number as the container's memory usage.",
    )
)

# The dialects.


class VgpuFamilies(NamedTuple):
    """What one dialect calls each quantity; None where it has no such family."""

    host_memory_used: FamilySpec
    host_utilization: FamilySpec
    memory_used: FamilySpec
    memory_limit: FamilySpec
    container_memory: FamilySpec
    utilization: FamilySpec
    last_kernel: FamilySpec
    mig_info: FamilySpec
    memory_context: FamilySpec | None = None
    memory_module: FamilySpec | None = None
    memory_buffer: FamilySpec | None = None
    build_info: FamilySpec | None = None
    host_memory_controller_utilization: FamilySpec | None = None


def _modern(legacy: FamilySpec, labels: tuple[Label, ...], *waivers: Waiver) -> FamilySpec:
    return hami.zoned(hami.renamed(legacy, labels, *waivers))


SEED = VgpuFamilies(
    host_memory_used=HOST_MEMORY_USED,
    host_utilization=HOST_UTILIZATION,
    memory_used=MEMORY_USED,
    memory_limit=MEMORY_LIMIT,
    container_memory=CONTAINER_MEMORY,
    utilization=UTILIZATION,
    last_kernel=LAST_KERNEL,
    mig_info=MIG_INFO,
    memory_context=MEMORY_CONTEXT,
    memory_module=MEMORY_MODULE,
    memory_buffer=MEMORY_BUFFER,
    build_info=BUILD_INFO,
)
# The three parts of memory never had a released old name.
LEGACY_V2_9 = VgpuFamilies(*map(hami.zoned, SEED[:8]))
LEGACY_V2_10 = LEGACY_V2_9._replace(
    host_memory_used=hami.zoned(hami.relabeled(HOST_MEMORY_USED, label.NODEID, *_LEGACY_HOST)),
    host_utilization=hami.zoned(hami.relabeled(HOST_UTILIZATION, label.NODEID, *_LEGACY_HOST)),
)
V2_8 = LEGACY_V2_9._replace(
    container_memory=hami.mistyped_counter(LEGACY_V2_9.container_memory),
    build_info=BUILD_INFO,
)
V2_9 = VgpuFamilies(
    host_memory_used=_modern(HOST_MEMORY_USED, _HOST),
    host_utilization=_modern(HOST_UTILIZATION, _HOST, hami.UNIT_MISNAMED, hami.PERCENT),
    memory_used=_modern(MEMORY_USED, _CONTAINER),
    memory_limit=_modern(MEMORY_LIMIT, _CONTAINER),
    container_memory=_modern(
        CONTAINER_MEMORY,
        (*_CONTAINER, label.CONTEXT_SIZE, label.MODULE_SIZE, label.BUFFER_SIZE, label.OFFSET),
        hami.MEASURED_LABEL,
    ),
    utilization=_modern(UTILIZATION, _CONTAINER, hami.UNIT_MISNAMED, hami.PERCENT),
    last_kernel=_modern(LAST_KERNEL, _CONTAINER),
    mig_info=_modern(MIG_INFO, (*_CONTAINER, label.INSTANCE_ID)),
    memory_context=_modern(MEMORY_CONTEXT, _CONTAINER),
    memory_module=_modern(MEMORY_MODULE, _CONTAINER),
    memory_buffer=_modern(MEMORY_BUFFER, _CONTAINER),
    build_info=BUILD_INFO,
)
V2_10 = V2_9._replace(
    host_memory_used=_modern(HOST_MEMORY_USED, (label.NODE, *_HOST)),
    host_utilization=_modern(HOST_UTILIZATION, (label.NODE, *_HOST), hami.UNIT_MISNAMED, hami.PERCENT),
    container_memory=_CONTAINER_MEMORY_V2_10,
    mig_info=_modern(
        MIG_INFO,
        (*_CONTAINER, label.MIG_UUID, label.PROFILE, label.GPU_INSTANCE_ID, label.COMPUTE_INSTANCE_ID),
    ),
    host_memory_controller_utilization=HOST_MEMORY_CONTROLLER_UTILIZATION,
)

BY_DIALECT: dict[str, VgpuFamilies] = {"seed": SEED, "v2.8": V2_8, "v2.9": V2_9, "v2.10": V2_10}
LEGACY: dict[str, VgpuFamilies] = {"v2.9": LEGACY_V2_9, "v2.10": LEGACY_V2_10}
"""The old names that these versions expose in addition, on request."""

DIALECTS: dict[str, tuple[FamilySpec, ...]] = {name: hami.present(group) for name, group in BY_DIALECT.items()}
