"""When to take a GPU back, as data: the policies that a replay compares, their text form, and the rules of others."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

Rule = Literal["idle", "mean"]
"""`idle`: no sample of the window is active. `mean`: the mean of the window is not above the threshold."""

OnMissing = Literal["unknown", "ignore", "zero"]
"""`unknown`: a hole longer than `gap` sets the idle clock back, a check in a hole says nothing, and `coverage` of the
window must be known.
`ignore`: holes are looked over, as `max_over_time` does, as long as the window has one sample.
`zero`: a window without any sample is idle, as the published analyzer has it."""

Span = Annotated[float, Meta(ge=0, le=90 * DAY)]


class Policy(Struct, frozen=True, kw_only=True):
    """Times in seconds, utilization in percent, power in watts."""

    name: str
    rule: Rule = "idle"
    window: Annotated[float, Meta(ge=1, le=90 * DAY)]
    above: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """A sample (or mean) is active above this."""
    power: Annotated[float, Meta(gt=0)] | None = None
    """A sample of more watts than this is active, too."""
    grace: Span = 0.0
    """The idle clock does not run before a subject is this old."""
    rounds: Annotated[int, Meta(ge=1, le=10_000)] = 1
    """So many checks in a row must agree."""
    every: Annotated[float, Meta(ge=1, le=DAY)] = MINUTE
    """Seconds from check to check."""
    coverage: Annotated[float, Meta(ge=0, le=1)] = 0.8
    gap: Span = 5 * MINUTE
    missing: OnMissing = "unknown"
    note: str = ""


DEFAULT_POLICY = Policy(
    name="default",
    window=2 * HOUR,
    grace=30 * MINUTE,
    rounds=3,
    every=5 * MINUTE,
    note="ours: the smallest window whose 60 min regret stays below 5 % on generated traces (docs/replay.md)",
)

BUILT_IN: Mapping[str, Policy] = {
    policy.name: policy
    for policy in (
        DEFAULT_POLICY,
        Policy(
            name="gpu-pruner",
            window=30 * MINUTE,
            above=0,
            grace=5 * MINUTE,
            every=3 * MINUTE,
            missing="ignore",
            note="gpu-pruner: max_over_time(...[30m]) == 0, pod older than 30 min + 300 s, looked at every 180 s",
        ),
        Policy(
            name="runai",
            window=HOUR,
            above=0,
            every=30,
            note="Run:ai: 30 s intervals of 0 add up, any activity resets; the limit is the admin's, here 60 min",
        ),
        Policy(
            name="northeastern",
            window=HOUR,
            above=0,
            every=MINUTE,
            note="Northeastern IdleBot: e-mail after 15 min, cancelled after 60 min",
        ),
        Policy(
            name="princeton",
            window=2 * HOUR,
            above=0,
            every=5 * MINUTE,
            note="Princeton Job Defense Shield: all samples 0, cancelled after 120 min",
        ),
        Policy(
            name="princeton-sliding",
            window=5 * HOUR,
            above=0,
            every=5 * MINUTE,
            note="Princeton Job Defense Shield: the sliding window, cancelled after 300 min",
        ),
        Policy(
            name="dlworkspace",
            window=4 * HOUR,
            above=0,
            every=MINUTE,
            note="Microsoft DLWorkspace: avg(task_gpu_percent) == 0 for 4h",
        ),
        Policy(
            name="dstack",
            window=HOUR,
            above=10,
            every=MINUTE,
            missing="ignore",
            note="dstack: all samples below min_gpu_utilization over time_window: the user's, here 10 % and 60 min",
        ),
        Policy(
            name="published",
            rule="mean",
            window=10 * MINUTE,
            above=20,
            every=5 * MINUTE,
            missing="zero",
            note="the published analyzer: mean over 10 min below 20, every 300 s, acts at once, no data is 0",
        ),
        Policy(
            name="published-5-rounds",
            rule="mean",
            window=10 * MINUTE,
            above=20,
            rounds=5,
            every=5 * MINUTE,
            missing="zero",
            note="the published analyzer with the 5 consecutive rounds that its text advises",
        ),
    )
}
"""Name -> policy. Scores are left out: a published rule is its utilization part."""

SWEEP_WINDOWS = tuple(minutes * MINUTE for minutes in (10, 20, 30, 45, 60, 90, 120, 150, 180, 240, 300, 360, 420, 480))


class PolicyError(ValueError):
    """A policy that cannot be; the message is one sentence."""


def sweep(policy: Policy) -> tuple[Policy, ...]:
    """The same policy with windows from 10 min to 8 h."""
    return tuple(
        msgspec.structs.replace(policy, name=f"window {duration_text(window)}", window=window, note="")
        for window in SWEEP_WINDOWS
    )


def parse_policy(text: str) -> Policy:
    """`idle:120m,grace=30m,above=1`, `mean:10m,above=20,rounds=5`, or a built-in name; changes may follow that, too."""
    head, *changes = (part.strip() for part in text.split(","))
    policy = _built_in(head, text) if ":" not in head else _from_rule(head, text)
    values = msgspec.structs.asdict(policy)
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals or key not in _KEYS:
            raise PolicyError(
                f'policy "{text}": "{change}" is not one of {", ".join(f"{known}=..." for known in _KEYS)}'
            )
        values[key] = _value(key, value, text)
    if changes and not any(change.startswith("name=") for change in changes):
        values["name"] = text
    return _checked(values, text)


def policy_text(policy: Policy) -> str:
    """What `parse_policy` reads back: all that is not the default."""
    parts = [f"{policy.rule}:{duration_text(policy.window)}"]
    for key, (_, show) in _KEYS.items():
        value, usual = getattr(policy, key), _USUAL.get(key)
        if key != "name" and value != usual:
            parts.append(f"{key}={show(value)}")
    return ",".join(parts)


def duration_text(seconds: float) -> str:
    for unit, size in (("d", DAY), ("h", HOUR), ("m", MINUTE)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.15g}s"


def parse_duration(text: str) -> float:
    """`90s`, `1h30m`; ValueError otherwise."""
    if not _DURATION.fullmatch(text):
        raise ValueError(text)
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


_UNITS = {"s": 1.0, "m": MINUTE, "h": HOUR, "d": DAY}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])", re.ASCII)
_DURATION = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)

_KEYS: Mapping[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    "above": (float, lambda value: f"{value:.15g}"),
    "power": (float, lambda value: f"{value:.15g}"),
    "grace": (parse_duration, duration_text),
    "rounds": (int, str),
    "every": (parse_duration, duration_text),
    "coverage": (float, lambda value: f"{value:.15g}"),
    "gap": (parse_duration, duration_text),
    "missing": (str, str),
    "name": (str, str),
}
"""What may follow the rule: how its value is read and shown."""

_USUAL = {name: field.default for name, field in ((f.name, f) for f in msgspec.structs.fields(Policy))}


def _built_in(name: str, text: str) -> Policy:
    try:
        return BUILT_IN[name]
    except KeyError:
        known = ", ".join(BUILT_IN)
        raise PolicyError(f'policy "{text}" is neither RULE:WINDOW (rules: idle, mean) nor one of {known}') from None


def _from_rule(head: str, text: str) -> Policy:
    rule, _, window = head.partition(":")
    try:
        seconds = parse_duration(window)
    except ValueError:
        raise PolicyError(f'policy "{text}": "{window}" is not a duration such as 90s, 30m, 2h or 1d') from None
    return _checked({"name": text, "rule": rule, "window": seconds}, text)


def _value(key: str, value: str, text: str) -> Any:
    try:
        return _KEYS[key][0](value)
    except ValueError:
        raise PolicyError(f'policy "{text}": {key}="{value}" is not a {_WANTED.get(key, "number")}') from None


_WANTED = {"grace": "duration such as 30m", "every": "duration such as 5m", "gap": "duration such as 5m"}


def _checked(values: Mapping[str, Any], text: str) -> Policy:
    try:
        policy = msgspec.convert(values, Policy)
    except msgspec.ValidationError as error:
        raise PolicyError(f'policy "{text}": {error}') from None
    if policy.rule == "mean" and policy.power is not None:
        raise PolicyError(f'policy "{text}": power= goes with the rule idle only')
    return policy
