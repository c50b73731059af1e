"""What a benchmark tells: one figure per line, and the same as JSON."""

import json
import operator
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results.json"
_COMPARE = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


@dataclass(frozen=True)
class Figure:
    """One measured number. `goal` is like ("<=", 1.0) and speaks of the ratio where there is a peer.

    `ratio` is how many times better than the peer: peer over ours, both in the same unit.
    """

    name: str
    value: float
    unit: str
    goal: tuple[str, float] | None = None
    peer: str = ""
    peer_value: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.peer_value / self.value if self.peer_value is not None and self.value else None

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        sign, bound = self.goal
        judged = self.value if self.ratio is None else self.ratio
        return bool(_COMPARE[sign](judged, bound))

    def line(self) -> str:
        parts = [f"{self.name:34s} {self.value:12.6g} {self.unit:10s}"]
        if self.ratio is not None:
            parts.append(f"{self.peer} {self.peer_value:.6g}, ratio {self.ratio:.1f}x")
        if self.goal is not None:
            parts.append(f"goal {self.goal[0]} {self.goal[1]:g}{'x' if self.ratio is not None else ''}")
            parts.append("met" if self.met else "MISSED")
        return "  ".join(parts)


def write(figures: Iterable[Figure]) -> None:
    """Figures measured now replace their predecessors; others stay."""
    known = {row["name"]: row for row in json.loads(RESULTS.read_text())} if RESULTS.exists() else {}
    known |= {f.name: {**asdict(f), "ratio": f.ratio, "met": f.met} for f in figures}
    RESULTS.write_text(json.dumps(list(known.values()), indent=2) + "\n")


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def best(work: Callable[[], object], rounds: int) -> float:
    """The fastest of several runs: what the machine's other work disturbed least."""
    return min(seconds(work) for _ in range(rounds))


def side_by_side(ours: Callable[[], object], peer: Callable[[], object], rounds: int) -> tuple[float, float]:
    """The fastest run of each, taken in turns so that both see the same machine."""
    pairs = [(seconds(ours), seconds(peer)) for _ in range(rounds)]
    return min(a for a, _ in pairs), min(b for _, b in pairs)
