"""What the analysis remembers from round to round; journaled with each round, so that a restart forgets nothing."""

from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from gpusight.analysis.records import State


class HeldMemory(NamedTuple):
    """GPUs and MIG instances of one pod, and when all of them were last in sight."""

    gpus: int
    seen: float


class SubjectMemory(Struct, kw_only=True):
    """One subject. Times are Unix seconds."""

    first_seen: float
    seen: float
    """Last round that saw it."""
    state: State
    since: float
    pending: State | None = None
    pending_rounds: int = 0
    idle_since: float | None = None
    last_active: float | None = None
    idle_byte_seconds: float = 0.0
    used: float = 0.0
    """GPU-seconds since it was first seen; so the next two."""
    idle: float = 0.0
    unknown: float = 0.0
    held: dict[str, HeldMemory] = field(default_factory=dict)
    """By pod."""


class HourMemory(Struct, kw_only=True):
    """The running hour of one subject and GPU model, in GPU-seconds."""

    cluster: str
    namespace: str
    subject: str
    model: str
    used: float = 0.0
    idle: float = 0.0
    unknown: float = 0.0
    joules: float = 0.0
    is_metered: bool = True
    """False once a part's power was not known: then the energy is not known either."""


class Memory(Struct, kw_only=True):
    """All of it. `floors` are the lowest idle powers seen, in watts, by cluster and GPU."""

    began: float | None = None
    """The first round ever: whoever is first seen later started later."""
    at: float | None = None
    rounds: int = 0
    subjects: dict[str, SubjectMemory] = field(default_factory=dict)
    floors: dict[str, float] = field(default_factory=dict)
    tenants: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """GPU-seconds used, idle and unknown for ever, by cluster and namespace."""
    written: float = 0.0
    """When the rows of the running hour were last given out."""
    hour: int | None = None
    hours: dict[str, HourMemory] = field(default_factory=dict)


class MemoryLost(ValueError):  # noqa: N818 - said of the data
    """What was journaled cannot be read; the message says why."""


_ENCODER: Any = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Memory)


def dump(memory: Memory) -> bytes:
    encoded: bytes = _ENCODER.encode(memory)
    return encoded


def load(data: bytes) -> Memory:
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError as error:
        raise MemoryLost(f"the state of the last round cannot be read ({error}); idle times start anew") from error
