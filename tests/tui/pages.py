"""Pages of node agents: simulated ones at a fixed moment, and one with the share scheduler's families."""

import tempfile
from functools import cache
from pathlib import Path

from gpusight.collectors.vgpu import DEFAULT
from tests.runtime.test_node_golden import SECONDS, Machine

READ_AT = 1_700_000_000.0 + SECONDS


@cache
def simulated(fleet: str = "default", *sets: str) -> str:
    with tempfile.TemporaryDirectory() as directory:
        return Machine(fleet, Path(directory)).page(sets or ("gpu", "containers", "processes", "health"), DEFAULT)


LOST = """\
gpusight_nvml_up{reason=""} 1
gpusight_gpu_info{uuid="GPU-a",gpu="0",node="n1",name="Tesla T4"} 1
gpusight_gpu_last_reading_timestamp_seconds{uuid="GPU-a",gpu="0"} 1700000000
gpusight_gpu_utilization_ratio{uuid="GPU-a",gpu="0"} 0.25
gpusight_gpu_info{uuid="GPU-b",gpu="1",node="n1",name="Tesla T4"} 1
gpusight_gpu_last_reading_timestamp_seconds{uuid="GPU-b",gpu="1"} 1699999900
gpusight_gpu_utilization_ratio{uuid="GPU-b",gpu="1"} 0.75
gpusight_device_up{uuid="GPU-a",gpu="0",reason=""} 1
gpusight_device_up{uuid="GPU-b",gpu="1",reason=""} 1
gpusight_device_up{uuid="GPU-c",gpu="2",reason="lost"} 0
gpusight_device_up{gpu="10",reason="blocked"} 0
gpusight_device_up{gpu="9",reason="blocked"} 0
gpusight_holder_info{namespace="ml",pod="job-0",container="main",uuid="GPU-c",how="kubernetes_api"} 1
gpusight_process_gpu_memory_used_bytes{uuid="GPU-a",pid="77",slurm_job="4711"} 1073741824
"""
"""One GPU that is read, one whose reading is 100 s old, one lost, two of which nothing is known."""

SHARED = """\
gpusight_build_info{role="node"} 1
gpusight_gpu_info{uuid="GPU-a",gpu="0",node="n1",name="Tesla T4"} 1
gpusight_gpu_utilization_ratio{uuid="GPU-a",gpu="0"} 0.5
nvshare_scheduler_running_clients{gpu_uuid="GPU-a",gpu_index="0"} 1
nvshare_scheduler_request_queue_clients{gpu_uuid="GPU-a",gpu_index="0"} 2
nvshare_scheduler_wait_queue_clients{gpu_uuid="GPU-a",gpu_index="0"} 1
nvshare_scheduler_running_memory_bytes{gpu_uuid="GPU-a",gpu_index="0"} 4294967296
nvshare_scheduler_memory_safe_limit_bytes{gpu_uuid="GPU-a",gpu_index="0"} 12884901888
nvshare_scheduler_memory_overloaded{gpu_uuid="GPU-a",gpu_index="0"} 0
nvshare_client_info{namespace="ml",pod="a-0",client_id="c1",gpu_uuid="GPU-a",gpu_index="0",host_pid="11"} 1
nvshare_client_info{namespace="ml",pod="b-0",client_id="c2",gpu_uuid="GPU-a",gpu_index="0",host_pid="12"} 1
nvshare_client_managed_allocated_bytes{namespace="ml",pod="a-0",client_id="c1",gpu_uuid="GPU-a"} 2147483648
nvshare_client_memory_quota_bytes{namespace="ml",pod="a-0",client_id="c1",gpu_uuid="GPU-a"} 4294967296
nvshare_client_memory_quota_bytes{namespace="ml",pod="b-0",client_id="c2",gpu_uuid="GPU-a"} 0
nvshare_client_core_quota_effective_percent{namespace="ml",pod="a-0",client_id="c1",gpu_uuid="GPU-a"} 30
nvshare_client_core_usage_ratio{namespace="ml",pod="a-0",client_id="c1",gpu_uuid="GPU-a"} 1.2
nvshare_client_throttled{namespace="ml",pod="a-0",client_id="c1",gpu_uuid="GPU-a"} 1
nvshare_client_pending_drop{namespace="ml",pod="b-0",client_id="c2",gpu_uuid="GPU-a"} 1
"""
