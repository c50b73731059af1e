"""Traces as production has them, out of a seed: the same seed gives the same trace on every machine."""

import random
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log
from typing import Literal, NamedTuple

from gpusight.analysis.replay_trace import NAN, SubjectTrace, Trace
from gpusight.analysis.traces_profiles import PROFILES, Kind, Profile

EPOCH = 1_700_000_400.0
"""When generated time begins: a whole number of minutes."""

_NOISE = 1 << 16
_GOLDEN = 0.6180339887498949
Phase = Literal["startup", "busy", "pause", "lying"]


class TraceSpecError(ValueError):
    """A specification that cannot be; the message is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpec:
    """What to generate."""

    seed: int = 1
    profile: str = "acme"
    subjects: int = 3000
    days: float = 14.0
    step: float = 60.0

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise TraceSpecError(f'profile "{self.profile}" is not one of {", ".join(PROFILES)}')
        for name, low, high in (("subjects", 1, 1_000_000), ("days", 0.1, 400), ("step", 1, 3600)):
            if not low <= getattr(self, name) <= high:
                raise TraceSpecError(f"{name} of a generated trace must be from {low} to {high}")


def parse_spec(text: str) -> TraceSpec:
    """`7`, or `7,profile=philly,subjects=500,days=7,step=30`."""
    seed, *rest = text.split(",")
    values: dict[str, object] = {}
    try:
        values["seed"] = int(seed)
        for part in rest:
            key, _, value = part.partition("=")
            values[key] = _READ[key](value)
    except (KeyError, ValueError):
        keys = ", ".join(f"{key}=..." for key in _READ)
        raise TraceSpecError(f'"generated:{text}" is not generated:SEED with any of {keys}') from None
    return TraceSpec(**values)  # type: ignore[arg-type]  # read by _READ


_READ = {"profile": str, "subjects": int, "days": float, "step": float}


class Segment(NamedTuple):
    """A phase of a subject's life, in samples."""

    phase: Phase
    samples: int


def generate(spec: TraceSpec) -> Trace:
    return Trace(spec_text(spec), list(_Generator(spec).subjects()))


def spec_text(spec: TraceSpec) -> str:
    """What generates it again."""
    usual = TraceSpec()
    changed = (f",{key}={getattr(spec, key)}" for key in _READ if getattr(spec, key) != getattr(usual, key))
    return f"generated:{spec.seed}{''.join(changed)}"


class _Generator:
    def __init__(self, spec: TraceSpec) -> None:
        self._spec = spec
        self._profile: Profile = PROFILES[spec.profile]
        self._random = random.Random(f"gpusight {spec.seed} {spec.profile}")  # noqa: S311 - repeatable on purpose
        self._noise = [self._random.gauss(0.0, 1.0) for _ in range(_NOISE)]
        self._length = int(spec.days * 86400 / spec.step)
        self._outages = list(self._outage_samples())

    def subjects(self) -> Iterator[SubjectTrace]:
        for kind, count in self._counts():
            places = list(range(count))
            self._random.shuffle(places)
            for number, place in enumerate(places):
                # Spread evenly over the distributions instead of drawn from them: few subjects show the tails, too.
                life = kind.life.at((place + self._random.random()) / count)
                lying = kind.lying.at((number + 0.5) * _GOLDEN % 1)
                yield self._subject(f"{kind.name}-{number}", kind, life, lying)

    def _counts(self) -> Iterator[tuple[Kind, int]]:
        kinds = self._profile.kinds
        bounds = [round(self._spec.subjects * share) for share in accumulate(kinds.values())]
        for name, low, high in zip(kinds, [0, *bounds], bounds, strict=False):
            yield self._profile.table[name], high - low

    def _subject(self, name: str, kind: Kind, life: float, lying: float) -> SubjectTrace:
        first = int(self._random.random() * 0.95 * self._length)
        segments = _cut(list(self._segments(kind, life, lying)), self._length - first)
        util, memory, power = self._columns(kind, segments)
        self._lose(util, memory, power, first)
        step = self._spec.step
        times = array("d", (EPOCH + (first + index) * step for index in range(len(util))))
        return SubjectTrace(name, times, util, power, times[-1] + step, step, memory=memory)

    def _segments(self, kind: Kind, life: float, lying: float) -> Iterator[Segment]:
        yield self._segment("startup", kind.startup.at(self._random.random()))
        worked = 0.0
        while worked < life:
            busy = min(kind.busy.at(self._random.random()), life - worked)
            yield self._segment("busy", busy)
            worked += busy
            if worked < life:
                pause = self._pause(kind)
                yield self._segment("pause", pause)
                worked += pause
        if self._random.random() < kind.left:
            yield self._segment("lying", lying)

    def _pause(self, kind: Kind) -> float:
        weights = [weight for weight, _ in kind.pauses]
        length = self._random.choices(kind.pauses, weights)[0][1]
        return length.at(self._random.random())

    def _segment(self, phase: Phase, minutes: float) -> Segment:
        return Segment(phase, max(1, round(minutes * 60 / self._spec.step)))

    def _columns(
        self, kind: Kind, segments: Sequence[Segment]
    ) -> tuple["array[float]", "array[float]", "array[float]"]:
        util, memory, power = array("f"), array("f"), array("f")
        draw, profile = self._random.random, self._profile
        holds, held = draw() < kind.holding, profile.memory.at(draw())
        floor = profile.floor.at(draw())
        for phase, samples in segments:
            noise = self._some_noise(samples)
            if phase == "busy":
                util.extend(_levels((kind.util or profile.util).at(draw()), noise))
                watts = (kind.power or profile.power).at(draw())
                power.extend([watts + 3.0 * each for each in noise])
            else:
                util.extend(self._idle(samples))
                power.extend([floor + 0.4 * each for each in noise])
            keeps = phase in ("busy", "pause") or (phase == "lying" and holds)
            memory.extend(array("f", [held if keeps else 0.0]) * samples)
        return util, memory, power

    def _some_noise(self, samples: int) -> list[float]:
        start = self._random.randrange(_NOISE)
        noise = self._noise[start : start + samples]
        while len(noise) < samples:
            noise += self._noise[: samples - len(noise)]
        return noise

    def _idle(self, samples: int) -> "array[float]":
        util = array("f", [0.0]) * samples
        for index in self._chosen(self._profile.telemetry.blip, samples):
            util[index] = 1.0
        return util

    def _chosen(self, share: float, samples: int) -> Iterator[int]:
        """Each index with this probability, without asking for each."""
        if share <= 0:
            return
        index = -1
        while True:
            index += 1 + int(log(1.0 - self._random.random()) / log(1.0 - share))
            if index >= samples:
                return
            yield index

    def _lose(self, util: "array[float]", memory: "array[float]", power: "array[float]", first: int) -> None:
        telemetry, samples, step = self._profile.telemetry, len(util), self._spec.step
        lost = [(index, 1) for index in self._chosen(telemetry.lost, samples)]
        for index in self._chosen(step / 60 / telemetry.restart_every, samples):
            length = max(1, round(telemetry.restart.at(self._random.random()) * 60 / step))
            lost += [(index, length)]
        for start, length in self._outages:
            if start + length > first and start < first + samples:
                begin = max(0, start - first)
                lost.append((begin, start + length - first - begin))
        for start, length in lost:
            end = min(samples, start + length)
            gone = array("f", [NAN]) * (end - start)
            util[start:end] = memory[start:end] = power[start:end] = gone

    def _outage_samples(self) -> Iterator[tuple[int, int]]:
        telemetry, step = self._profile.telemetry, self._spec.step
        for index in self._chosen(step / 60 / telemetry.outage_every, self._length):
            yield index, max(1, round(telemetry.outage.at(self._random.random()) * 60 / step))


def _levels(base: float, noise: Sequence[float]) -> "array[float]":
    """Whole percents around a level, never 0."""
    spread = 0.4 if base >= 90 else 5.0
    return array("f", [min(100.0, max(1.0, float(round(base + spread * each)))) for each in noise])


def _cut(segments: list[Segment], samples: int) -> list[Segment]:
    """What fits before the recording ends."""
    result = []
    for phase, length in segments:
        if samples <= 0:
            break
        result.append(Segment(phase, min(length, samples)))
        samples -= length
    return result
