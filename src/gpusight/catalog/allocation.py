"""What the cluster handed out: the families of HAMi's scheduler, in every dialect."""

from functools import partial
from typing import NamedTuple

from gpusight.catalog import hami
from gpusight.catalog import labels as label
from gpusight.catalog.spec import FamilySpec, Label, Waiver

_family = partial(FamilySpec, kind="gauge", origin="hami-scheduler", endpoint="cluster")

_LEGACY_GPU = (label.NODEID, label.DEVICEUUID, label.DEVICEIDX)
_LEGACY_CONTAINER = (label.PODNAMESPACE, label.NODENAME, label.PODNAME, label.CONTAINERIDX, label.DEVICEUUID)
_GPU = (label.NODE, label.DEVICE_UUID, label.DEVICE_INDEX)
_CONTAINER = (label.NAMESPACE, label.NODE, label.POD, label.CONTAINER_INDEX, label.DEVICE_UUID)

_REGISTERED = "As the node registered it, so more than the hardware has where memory is over-committed."

# The names of seed 001.

DEVICE_MEMORY_LIMIT = _family(
    name="GPUDeviceMemoryLimit",
    unit="bytes",
    labels=(*_LEGACY_GPU, label.DEVICETYPE),
    help="Memory of the GPU that the scheduler may hand out, in bytes.",
    superseded_by="hami_gpu_memory_limit_bytes",
    how_to_read=_REGISTERED,
    waivers=(hami.CAMEL_CASE, hami.UNIT_UNSAID),
)
DEVICE_CORE_LIMIT = _family(
    name="GPUDeviceCoreLimit",
    unit="percent",
    labels=(*_LEGACY_GPU, label.DEVICETYPE),
    help="Compute of the GPU that the scheduler may hand out, in percent of one GPU.",
    superseded_by="hami_gpu_core_limit_ratio",
    how_to_read="100 unless compute is over-committed. Not a number of cores, but AMD's compute units in the old name.",
    waivers=(hami.CAMEL_CASE, hami.UNIT_UNSAID, hami.PERCENT),
)
DEVICE_MEMORY_ALLOCATED = _family(
    name="GPUDeviceMemoryAllocated",
    unit="bytes",
    labels=(*_LEGACY_GPU, label.DEVICECORES, label.DEVICETYPE),
    help="Memory of the GPU that is handed out to containers, in bytes.",
    superseded_by="hami_gpu_memory_allocated_bytes",
    how_to_read="Granted, not used: compare with what the node reports.",
    waivers=(hami.CAMEL_CASE, hami.UNIT_UNSAID, hami.MEASURED_LABEL),
)
DEVICE_CORE_ALLOCATED = _family(
    name="GPUDeviceCoreAllocated",
    unit="percent",
    labels=(*_LEGACY_GPU, label.DEVICETYPE),
    help="Compute of the GPU that is handed out to containers, in percent of one GPU.",
    superseded_by="hami_gpu_core_allocated_ratio",
    how_to_read="Containers that asked for no share of compute count 0 and still compete for it.",
    waivers=(hami.CAMEL_CASE, hami.UNIT_UNSAID, hami.PERCENT),
)
DEVICE_SHARED = _family(
    name="GPUDeviceSharedNum",
    unit="count",
    labels=(*_LEGACY_GPU, label.DEVICETYPE),
    help="Containers that share the GPU.",
    superseded_by="hami_gpu_shared_count",
    how_to_read="0 is a free GPU, 1 one that nobody shares.",
    waivers=(hami.CAMEL_CASE,),
)
NODE_OVERVIEW = _family(
    name="nodeGPUOverview",
    unit="bytes",
    labels=(
        *_LEGACY_GPU,
        label.DEVICECORES,
        label.SHAREDCONTAINERS,
        label.DEVICEMEMORYLIMIT,
        label.DEVICETYPE,
    ),
    help="Memory of the GPU that is handed out, in bytes, with what else is known of the GPU as labels.",
    superseded_by="hami_node_gpu_overview",
    how_to_read="Meant for tables. The value is in bytes but the label with the memory limit in MiB.",
    waivers=(hami.CAMEL_CASE, hami.UNIT_UNSAID, hami.MEASURED_LABEL),
)
NODE_MEMORY_RATIO = _family(
    name="nodeGPUMemoryPercentage",
    unit="ratio",
    labels=_LEGACY_GPU,
    help="Share of the GPU's memory that is handed out, 0 to 1.",
    superseded_by="hami_node_gpu_memory_allocated_ratio",
    how_to_read="0 to 1 under every name, although the old one says percentage. Absent for a GPU without memory.",
    waivers=(hami.CAMEL_CASE, hami.UNIT_UNSAID),
)
MIG_INSTANCE = _family(
    name="nodeGPUMigInstance",
    unit="boolean",
    labels=(*_LEGACY_GPU, label.MIGNAME),
    help="Whether the MIG slot is handed out: 1 yes, 0 no.",
    superseded_by="hami_node_gpu_mig_instance_info",
    how_to_read="A GPU in MIG mode on which nothing runs has no series at all.",
    waivers=(hami.CAMEL_CASE,),
)
VGPU_MEMORY_ALLOCATED = _family(
    name="vGPUMemoryAllocated",
    unit="bytes",
    labels=_LEGACY_CONTAINER,
    help="GPU memory that is handed out to the container, in bytes.",
    superseded_by="hami_vgpu_memory_allocated_bytes",
    how_to_read="Granted, not used: a large grant with little use is memory that others could have.",
    waivers=(hami.CAMEL_CASE, hami.UNIT_UNSAID),
)
VGPU_CORE_ALLOCATED = _family(
    name="vGPUCoreAllocated",
    unit="percent",
    labels=_LEGACY_CONTAINER,
    help="Compute that is handed out to the container, in percent of one GPU.",
    superseded_by="hami_vgpu_core_allocated_ratio",
    how_to_read="0 means that the container did not ask for a share: it may use what is left.",
    waivers=(hami.CAMEL_CASE, hami.UNIT_UNSAID, hami.PERCENT),
)
QUOTA_USED = _family(
    name="QuotaUsed",
    unit="quota units",
    labels=(label.QUOTANAMESPACE, label.QUOTANAME, label.QUOTA_LIMIT),
    help="How much of the namespace's GPU quota is used, in the quota's own units.",
    superseded_by="hami_resource_quota_used",
    how_to_read="MiB for memory quotas, percent of one GPU for compute quotas: never add the two up.",
    waivers=(hami.CAMEL_CASE, hami.MEASURED_LABEL),
)

# What later versions added.

BUILD_INFO = hami.build_info("hami-scheduler", "cluster")
QUOTA_LIMIT = hami.zoned(
    _family(
        name="hami_resource_quota_limit",
        unit="quota units",
        labels=(label.QUOTA_NAMESPACE, label.QUOTA_NAME),
        help="The namespace's GPU quota, in the quota's own units.",
        how_to_read="MiB for memory quotas, percent of one GPU for compute quotas. Absent where no quota is set.",
    )
)
_MIG_INSTANCE_V2_10 = hami.zoned(
    _family(
        name="hami_node_gpu_mig_instance_info",
        unit="info",
        labels=(
            *_GPU,
            label.MIG_UUID,
            label.PROFILE,
            label.GPU_INSTANCE_ID,
            label.COMPUTE_INSTANCE_ID,
            label.PLACEMENT_START,
            label.PLACEMENT_SIZE,
        ),
        help="A MIG device that is handed out, always 1.",
        how_to_read="Only devices that exist and are in use; a free slot has no series.",
    )
)
_IN_USE_IS_NO_INFO = Waiver(
    "unit-suffix", "HAMi's name; `_info` promises a constant 1 but v2.9 gives 0 for a free slot."
)

# The dialects.


class AllocationFamilies(NamedTuple):
    """What one dialect calls each quantity; None where it has no such family."""

    device_memory_limit: FamilySpec
    device_core_limit: FamilySpec
    device_memory_allocated: FamilySpec
    device_core_allocated: FamilySpec
    device_shared: FamilySpec
    node_overview: FamilySpec
    node_memory_ratio: FamilySpec
    mig_instance: FamilySpec
    vgpu_memory_allocated: FamilySpec
    vgpu_core_allocated: FamilySpec
    quota_used: FamilySpec
    quota_limit: FamilySpec | None = None
    build_info: FamilySpec | None = None


SEED = AllocationFamilies(
    device_memory_limit=DEVICE_MEMORY_LIMIT,
    device_core_limit=DEVICE_CORE_LIMIT,
    device_memory_allocated=DEVICE_MEMORY_ALLOCATED,
    device_core_allocated=DEVICE_CORE_ALLOCATED,
    device_shared=DEVICE_SHARED,
    node_overview=NODE_OVERVIEW,
    node_memory_ratio=NODE_MEMORY_RATIO,
    mig_instance=MIG_INSTANCE,
    vgpu_memory_allocated=VGPU_MEMORY_ALLOCATED,
    vgpu_core_allocated=VGPU_CORE_ALLOCATED,
    quota_used=QUOTA_USED,
)
LEGACY_V2_9 = AllocationFamilies(*map(hami.zoned, hami.present(SEED)))


def _without(spec: FamilySpec, gone: Label) -> FamilySpec:
    return hami.relabeled(spec, *(one for one in spec.labels if one is not gone))


LEGACY_V2_10 = LEGACY_V2_9._replace(node_overview=_without(LEGACY_V2_9.node_overview, label.SHAREDCONTAINERS))
V2_8 = LEGACY_V2_9._replace(
    device_memory_limit=_without(LEGACY_V2_9.device_memory_limit, label.DEVICETYPE),
    device_core_limit=_without(LEGACY_V2_9.device_core_limit, label.DEVICETYPE),
    device_memory_allocated=_without(LEGACY_V2_9.device_memory_allocated, label.DEVICETYPE),
    device_core_allocated=_without(LEGACY_V2_9.device_core_allocated, label.DEVICETYPE),
    device_shared=_without(LEGACY_V2_9.device_shared, label.DEVICETYPE),
    build_info=BUILD_INFO,
)


def _modern(legacy: FamilySpec, labels: tuple[Label, ...], *waivers: Waiver) -> FamilySpec:
    return hami.zoned(hami.renamed(legacy, labels, *waivers))


_TYPED_GPU = (*_GPU, label.DEVICE_TYPE)
V2_9 = AllocationFamilies(
    device_memory_limit=_modern(DEVICE_MEMORY_LIMIT, _TYPED_GPU),
    device_core_limit=_modern(DEVICE_CORE_LIMIT, _TYPED_GPU, hami.UNIT_MISNAMED, hami.PERCENT),
    device_memory_allocated=_modern(
        DEVICE_MEMORY_ALLOCATED, (*_GPU, label.DEVICE_CORES, label.DEVICE_TYPE), hami.MEASURED_LABEL
    ),
    device_core_allocated=_modern(DEVICE_CORE_ALLOCATED, _TYPED_GPU, hami.UNIT_MISNAMED, hami.PERCENT),
    device_shared=_modern(DEVICE_SHARED, _TYPED_GPU, hami.RESERVED_SUFFIX),
    node_overview=_modern(
        NODE_OVERVIEW,
        (*_GPU, label.DEVICE_CORES, label.SHARED_CONTAINERS, label.DEVICE_MEMORY_LIMIT, label.DEVICE_TYPE),
        hami.UNIT_UNSAID,
        hami.MEASURED_LABEL,
    ),
    node_memory_ratio=_modern(NODE_MEMORY_RATIO, _GPU),
    mig_instance=_modern(MIG_INSTANCE, (*_GPU, label.MIG_NAME), _IN_USE_IS_NO_INFO),
    vgpu_memory_allocated=_modern(VGPU_MEMORY_ALLOCATED, _CONTAINER),
    vgpu_core_allocated=_modern(VGPU_CORE_ALLOCATED, _CONTAINER, hami.UNIT_MISNAMED, hami.PERCENT),
    quota_used=_modern(QUOTA_USED, (label.QUOTA_NAMESPACE, label.QUOTA_NAME, label.QUOTA_LIMIT), hami.MEASURED_LABEL),
    build_info=BUILD_INFO,
)
V2_10 = V2_9._replace(
    node_overview=_without(V2_9.node_overview, label.SHARED_CONTAINERS),
    node_memory_ratio=_modern(NODE_MEMORY_RATIO, _TYPED_GPU),
    mig_instance=_MIG_INSTANCE_V2_10,
    quota_limit=QUOTA_LIMIT,
)

BY_DIALECT: dict[str, AllocationFamilies] = {"seed": SEED, "v2.8": V2_8, "v2.9": V2_9, "v2.10": V2_10}
LEGACY: dict[str, AllocationFamilies] = {"v2.9": LEGACY_V2_9, "v2.10": LEGACY_V2_10}
"""The old names that these versions expose in addition, on request."""

DIALECTS: dict[str, tuple[FamilySpec, ...]] = {name: hami.present(group) for name, group in BY_DIALECT.items()}
