"""The seed documents' tables, typed off them: the catalog must say the same."""

import pytest

from gpusight.catalog import allocation, ops, sharing, utilization, vgpu
from gpusight.catalog.all import SEEDS
from gpusight.catalog.spec import FamilySpec

_OPS_GLOBAL = """
gpu_available gauge device,gpu_device_name
gpu_total_executions counter
gpu_total_failures counter
gpu_failure_rate gauge
gpu_cpu_fallback_rate gauge
gpu_queue_depth gauge device
gpu_memory_used_bytes gauge device
gpu_total_exec_time_seconds counter
"""
_OPS_MODULE = """
gpu_{module}_executions_total counter
gpu_{module}_failures_total counter
gpu_{module}_cpu_fallback_total counter
gpu_{module}_{size} gauge
gpu_{module}_last_latency_ms gauge
gpu_{module}_latency_avg_ms gauge
gpu_{module}_latency_min_ms gauge
gpu_{module}_latency_max_ms gauge
"""
_OPS = _OPS_GLOBAL + "".join(
    _OPS_MODULE.format(module=module, size=size)
    for module, size in (("crypto", "last_batch_size"), ("merkle", "last_tree_size"), ("zk", "last_constraints"))
)
_SCHEDULER = """
GPUDeviceMemoryLimit gauge nodeid,deviceuuid,deviceidx,devicetype
GPUDeviceCoreLimit gauge nodeid,deviceuuid,deviceidx,devicetype
GPUDeviceMemoryAllocated gauge nodeid,deviceuuid,deviceidx,devicecores,devicetype
GPUDeviceCoreAllocated gauge nodeid,deviceuuid,deviceidx,devicetype
GPUDeviceSharedNum gauge nodeid,deviceuuid,deviceidx,devicetype
nodeGPUOverview gauge nodeid,deviceuuid,deviceidx,devicecores,sharedcontainers,devicememorylimit,devicetype
nodeGPUMemoryPercentage gauge nodeid,deviceuuid,deviceidx
nodeGPUMigInstance gauge nodeid,deviceuuid,deviceidx,migname
vGPUMemoryAllocated gauge podnamespace,nodename,podname,containeridx,deviceuuid
vGPUCoreAllocated gauge podnamespace,nodename,podname,containeridx,deviceuuid
QuotaUsed gauge quotanamespace,quotaName,limit
"""
_MONITOR = """
HostGPUMemoryUsage gauge deviceidx,deviceuuid,devicetype
HostCoreUtilization gauge deviceidx,deviceuuid,devicetype
vGPU_device_memory_usage_in_bytes gauge podnamespace,podname,ctrname,vdeviceid,deviceuuid
vGPU_device_memory_limit_in_bytes gauge podnamespace,podname,ctrname,vdeviceid,deviceuuid
Device_memory_desc_of_container gauge podnamespace,podname,ctrname,vdeviceid,deviceuuid,context,module,data,offset
Device_utilization_desc_of_container gauge podnamespace,podname,ctrname,vdeviceid,deviceuuid
Device_last_kernel_of_container gauge podnamespace,podname,ctrname,vdeviceid,deviceuuid
vGPU_device_memory_context_size_bytes gauge podnamespace,podname,ctrname,vdeviceid,deviceuuid
vGPU_device_memory_module_size_bytes gauge podnamespace,podname,ctrname,vdeviceid,deviceuuid
vGPU_device_memory_buffer_size_bytes gauge podnamespace,podname,ctrname,vdeviceid,deviceuuid
MigInfo gauge podnamespace,podname,ctrname,vdeviceid,deviceuuid,instanceid
hami_build_info gauge version,revision,build_date,go_version,compiler,platform
"""
_ANALYZER = """
gpu_utilization_score gauge gpu_id,pod,namespace,hostname,model
gpu_core_utilization gauge gpu_id,pod,namespace,hostname
gpu_memory_used_mb gauge gpu_id,pod,namespace,hostname
gpu_power_usage_watts gauge gpu_id,pod,namespace,hostname
gpu_memory_copy_utilization gauge gpu_id,pod,namespace,hostname
gpu_sm_clock_mhz gauge gpu_id,pod,namespace,hostname
gpu_ai_analysis_confidence gauge gpu_id,pod,namespace,ai_status
gpu_ai_adjusted_score gauge gpu_id,pod,namespace
gpu_total_count gauge
gpu_low_utilization_count gauge
gpu_idle_count gauge
gpu_average_score gauge
gpu_status_count gauge status
gpu_namespace_count gauge namespace
gpu_namespace_average_score gauge namespace
gpu_analysis_total counter
gpu_analysis_errors_total counter
gpu_analysis_duration_seconds histogram
"""
_NVSHARE_TESTED = """
nvshare_client_core_quota_config_percent gauge namespace,pod,client_id,gpu_uuid
nvshare_client_info gauge namespace,pod,client_id,gpu_uuid,gpu_index,host_pid
nvshare_client_managed_allocated_bytes gauge namespace,pod,client_id,gpu_uuid
nvshare_client_nvml_used_bytes gauge namespace,pod,client_id,gpu_uuid,host_pid
nvshare_gpu_info gauge gpu_uuid,gpu_index,gpu_name
nvshare_gpu_memory_total_bytes gauge gpu_uuid,gpu_index
nvshare_gpu_memory_used_bytes gauge gpu_uuid,gpu_index
nvshare_gpu_process_count gauge gpu_uuid,gpu_index
nvshare_gpu_utilization_ratio gauge gpu_uuid,gpu_index
nvshare_nvml_up gauge
nvshare_scheduler_drop_lock_total counter
nvshare_scheduler_messages_total counter type
nvshare_scheduler_request_queue_clients gauge gpu_uuid,gpu_index
nvshare_scheduler_running_clients gauge gpu_uuid,gpu_index
nvshare_scheduler_running_memory_bytes gauge gpu_uuid,gpu_index
nvshare_scheduler_wait_queue_clients gauge gpu_uuid,gpu_index
"""


def _lines(families: tuple[FamilySpec, ...]) -> set[str]:
    return {f"{spec.name} {spec.kind} {','.join(spec.label_names)}".strip() for spec in families}


@pytest.mark.parametrize(
    ("table", "families", "count"),
    [
        (_OPS, ops.SEED_FAMILIES, 32),
        (_SCHEDULER, allocation.DIALECTS["seed"], 11),
        (_MONITOR, vgpu.DIALECTS["seed"], 12),
        (_ANALYZER, utilization.FAMILIES, 18),
    ],
    ids=["000", "001 scheduler", "001 monitor", "003"],
)
def test_seed_tables_are_matched_line_by_line(table: str, families: tuple[FamilySpec, ...], count: int) -> None:
    assert _lines(families) == set(table.split("\n")) - {""}
    assert len(families) == count


def test_every_family_that_seed_004_looks_at_is_there() -> None:
    tested = set(_NVSHARE_TESTED.split("\n")) - {""}
    assert len(tested) == 16
    assert tested <= _lines(sharing.FORK_V2)


def test_nvshare_counts() -> None:
    assert (len(sharing.FORK_V2), len(sharing.FORK_V3_ADDED), len(sharing.DESIGNED)) == (34, 21, 4)


def test_without_nvml_the_fork_has_27_families() -> None:
    assert sum(not spec.name.startswith("nvshare_gpu_") for spec in sharing.FORK_V2) == 27


def test_counts_per_seed() -> None:
    assert {seed: sum(map(len, parts.values())) for seed, parts in SEEDS.items()} == {
        "000": 32,
        "001": 23,
        "003": 18,
        "004": 59,
    }
