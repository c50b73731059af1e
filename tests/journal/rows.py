"""Rows to record."""

from gpusight.model.history import ConfigChange, Episode, HourUse, VerdictChange

CHANGE = VerdictChange(
    at=1_000.5,
    cluster="east",
    namespace="team-a",
    subject="east/team-a/Deployment/llm",
    state="idle-held",
    previous="productive",
    confidence=0.9,
    reason="no kernel for 45 min, 73 GB held",
    detail='{"coverage": 1.0}',
)
HOUR = HourUse(
    hour=3_600,
    cluster="east",
    namespace="team-a",
    subject="east/team-a/Deployment/llm",
    model="NVIDIA H100 80GB HBM3",
    held_gpu_hours=2.0,
    used_gpu_hours=0.5,
    idle_gpu_hours=1.25,
    unknown_gpu_hours=0.25,
    energy_joules=1.5e6,
    cost=None,
    currency="EUR",
    owner="ada@example.org",
    team="vision",
)
EPISODE = Episode(
    id="east/team-a/Deployment/llm@1000",
    cluster="east",
    namespace="team-a",
    subject="east/team-a/Deployment/llm",
    state="idle-held",
    opened=1_000.5,
    closed=None,
    reason="no kernel for 45 min",
)
CONFIG_CHANGE = ConfigChange(at=1_000.5, actor="admin", name="threshold", old="20", new="30")
