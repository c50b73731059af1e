"""Examples for the description of the API; a test keeps them true to the types."""

from typing import Any

GPU: dict[str, Any] = {
    "gpu_id": "GPU-03cd1cf6-11f6-5ecc-feb0-af07406e1838",
    "pod": "comfyui-xuanwu-deploy-694d64fb5-jqs8w",
    "namespace": "comfyui",
    "hostname": "aigc-k8s-vn-master001",
    "model_name": "Tesla V100S-PCIE-32GB",
    "gpu_util": 78.5,
    "mem_copy": 45.2,
    "mem_used_mb": 18432.5,
    "mem_total_mb": 32510.0,
    "mem_usage_percent": 56.7,
    "power_usage": 185.3,
    "sm_clock": 1530.0,
    "score": 67.0,
    "status": "normal",
    "timestamp": "2026-01-31T10:30:00Z",
    "ai_analysis": None,
    "id": "9f86d081884c7d65",
    "cluster": "prod",
    "container": "main",
    "mig_instance": "",
    "slot": "",
    "subject": "prod/comfyui/Deployment/comfyui-xuanwu-deploy",
    "state": "productive",
    "note": "",
}
VERDICT: dict[str, Any] = {
    "subject": {
        "id": "prod/comfyui/Deployment/comfyui-xuanwu-deploy",
        "cluster": "prod",
        "namespace": "comfyui",
        "kind": "Deployment",
        "name": "comfyui-xuanwu-deploy",
        "how": "named by kube_replicaset_owner",
    },
    "state": "productive",
    "since": "2026-01-30T08:00:00Z",
    "confidence": 0.9,
    "reason": "Active in 97 % of the window, at 62 % of the power above its floor.",
    "evidence": "utilization-power",
    "coverage": 1.0,
    "activity": {"last_active": "2026-01-31T10:29:45Z", "active_share": 0.97, "idle_seconds": None},
    "efficiency": {
        "utilization": 0.785,
        "engine_active": None,
        "sm_active": None,
        "tensor_active": None,
        "dram_active": None,
        "power_above_floor": 0.62,
    },
    "holding": {"gpus": 1.0, "memory_bytes": 19327877120.0, "memory_share": 0.567, "idle_byte_hours": 0.0},
    "pods": ["comfyui-xuanwu-deploy-694d64fb5-jqs8w"],
    "parts": ["9f86d081884c7d65"],
    "nodes": ["aigc-k8s-vn-master001"],
    "models": ["Tesla V100S-PCIE-32GB"],
    "pending": None,
    "pending_rounds": 0,
    "owner": "li@example.com",
    "team": "vision",
}
_PAGE = {"total": 1, "limit": 100, "offset": 0, "round": 42, "timestamp": "2026-01-31T10:30:00Z"}
_SPAN = {"from": "2026-01-30T10:30:00Z", "to": "2026-01-31T10:30:00Z"}
_IDLE = {"subject": "prod/test/Pod/idle-pod", "cluster": "prod", "namespace": "test", "state": "idle-held"}
_TENANT = {"cluster": "prod", "namespace": "comfyui", "owner": "li@example.com", "team": "vision"}
_HOURS = {"used_gpu_hours": 20.0, "idle_gpu_hours": 3.5, "unknown_gpu_hours": 0.5}
_MONEY = {"energy_joules": 15984000.0, "cost": 36.0, "currency": "USD"}

EXAMPLES: dict[str, Any] = {
    "ErrorAnswer": {"error": {"code": "not_found", "message": "There is no such result.", "detail": None}},
    "ServiceInfo": {
        "service": "GPU Utilization Monitor",
        "version": "0.1.0",
        "features": {"ai_analysis": False, "prometheus_metrics": True, "control_api": False},
        "config": {
            "prometheus_url": "http://prometheus:9090",
            "threshold": 20,
            "interval": 300,
            "time_window_min": 10,
            "max_workers": 8,
        },
        "endpoints": {"results": "/results"},
    },
    "Health": {
        "status": "healthy",
        "prometheus_connected": True,
        "last_analysis": "2026-01-31T10:30:00Z",
        "analysis_timeout": False,
        "ai_enabled": False,
        "interval": 300.0,
        "reason": "",
        "leader": True,
    },
    "Triggered": {"status": "triggered", "message": "GPU analysis started in background", "use_ai": False},
    "list[gpusight.analysis.records.GpuResult]": [GPU],
    "LowResults": {"count": 0, "threshold": 20.0, "timestamp": "2026-01-31T10:30:00Z", "gpus": []},
    "list[gpusight.web.service.RoleStatus]": [
        {
            "name": "node",
            "url": "http://127.0.0.1:9394",
            "page": "",
            "state": "running",
            "restarts": 0,
            "since": "2026-01-31T10:00:00Z",
            "last_exit": "",
        }
    ],
    "Stats": {
        "total_gpus": 24,
        "avg_score": 45.6,
        "min_score": 5.2,
        "max_score": 92.3,
        "low_utilization_count": 3,
        "idle_count": 1,
        "by_status": {"idle": 1, "low": 2, "normal": 15, "high": 6, "unknown": 0},
        "by_namespace": {"comfyui": {"count": 24, "avg_score": 45.6, "low_util_count": 3}},
    },
    "SeedConfig": {
        "prometheus": {"url": "http://prometheus:9090", "time_window_min": 10, "step": 30},
        "scoring": {"gpu_util_weight": 0.5, "mem_copy_weight": 0.2, "mem_used_weight": 0.2, "power_weight": 0.1},
        "thresholds": {"threshold": 20},
        "scheduler": {"interval": 300, "max_workers": 8},
        "ai": {"enabled": False, "model": "gpt-4"},
        "control": {"enabled": False, "api_url": None},
    },
    "ConfigUpdated": {"status": "updated", "updates": {"threshold": 25}, "note": "Kept over restarts."},
    "LoggedIn": {"status": "logged in", "name": "grafana", "role": "read", "namespaces": ["comfyui"]},
    "Said": {"status": "logged out"},
    "ResultPage": {**_PAGE, "items": [GPU]},
    "VerdictPage": {**_PAGE, "items": [VERDICT]},
    "ResultDetail": {"result": GPU, "verdict": VERDICT},
    "Verdict": VERDICT,
    "WindowAnswer": {"id": GPU["id"], "quantity": "utilization", "points": [[1769855370.0, 0.78], [1769855400.0, 0.8]]},
    "Explanation": {
        "subject": VERDICT["subject"]["id"],
        "state": "productive",
        "reason": VERDICT["reason"],
        "evidence": "utilization-power",
        "steps": ["Only utilization and power were known.", "It computed in 97% of the window."],
        "verdict": VERDICT,
        "results": [GPU],
    },
    "History": {
        **_SPAN,
        "items": [
            {
                **_IDLE,
                "at": "2026-01-31T09:30:00Z",
                "previous": "productive",
                "confidence": 0.8,
                "reason": "No kernel ran for 60 minutes while 30 GiB are held.",
                "detail": None,
            }
        ],
    },
    "Hours": {
        **_SPAN,
        "items": [
            {
                **_TENANT,
                **_HOURS,
                **_MONEY,
                "hour": "2026-01-31T09:00:00Z",
                "subject": "prod/comfyui/Deployment/comfyui-xuanwu-deploy",
                "model": "Tesla V100S-PCIE-32GB",
                "held_gpu_hours": 24.0,
            }
        ],
    },
    "Tenants": {**_SPAN, "items": [{**_TENANT, **_HOURS, **_MONEY, "held_gpu_hours": 24.0, "idle_cost": 5.25}]},
    "Lending": {
        "items": [
            {
                **_TENANT,
                **_HOURS,
                "subject": "prod/comfyui/Deployment/comfyui-xuanwu-deploy",
                "state": "productive",
                "gpus": 1.0,
                "models": ["Tesla V100S-PCIE-32GB"],
                "since": "2026-01-30T08:00:00Z",
            }
        ]
    },
    "Episodes": {
        "items": [
            {
                **_IDLE,
                "id": "01JK2Z",
                "opened": "2026-01-31T09:30:00Z",
                "closed": None,
                "reason": "No kernel ran for 60 minutes while 30 GiB are held.",
            }
        ]
    },
    "RoundInfo": {
        "number": 42,
        "at": "2026-01-31T10:30:00Z",
        "duration_seconds": 0.8,
        "window_seconds": 600.0,
        "threshold": 20.0,
        "store": "prometheus http://prometheus:9090",
        "queries": 24,
        "results": 24,
        "verdicts": 20,
        "problems": [],
    },
    "ConfigValues": {
        "items": [{"name": "threshold", "value": 20, "origin": "default", "changeable": True, "help": "Below it: low."}]
    },
    "ConfigChanges": {
        "items": [
            {"at": "2026-01-31T10:00:00Z", "actor": "ops", "name": "threshold", "old": "20", "new": "25"},
        ]
    },
    "ReplayRequest": {
        "policies": ["default"],
        "csv": "timestamp,subject,util\n1769855370,team/train,0\n1769855400,team/train,0\n",
    },
}
