"""Recording rules that make the analyzer's rounds cheap: each packs several aggregates into one series per GPU.

The packing and its reasons are in store/digest.py. The analyzer uses what is recorded if its window, step, threshold
and condition are those that the rules were rendered for, and if it was recorded lately; else it asks for everything.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpusight.model.series import Span
from gpusight.store.digest import Digest
from gpusight.store.promql import condition as checked_condition
from gpusight.store.promql import duration

GROUP = "gpusight-digests"


class RecordingRule(NamedTuple):
    record: str
    expr: str


def recording_rules(
    step: float, window: float, condition: str, *, active_above: float = 0.005, cluster_label: str = "cluster"
) -> Sequence[RecordingRule]:
    """In the order in which they must be evaluated. ConditionError if the condition is no list of matchers."""
    digest = Digest(Span(0.0, window, step), active_above, checked_condition(condition), cluster_label)
    if not digest.fits:
        raise ValueError(f"a window of {window:g} s has too many steps of {step:g} s to be recorded: less than 1000")
    return [RecordingRule(*rule) for rule in digest.rules()]


def render_recording(
    step: float,
    window: float,
    condition: str,
    *,
    active_above: float = 0.005,
    cluster_label: str = "cluster",
    interval: float = 60.0,
) -> str:
    """A rules file for Prometheus, Thanos, Mimir or vmalert."""
    rules = recording_rules(step, window, condition, active_above=active_above, cluster_label=cluster_label)
    return "\n".join(_lines(rules, interval)) + "\n"


def _lines(rules: Sequence[RecordingRule], interval: float) -> Iterator[str]:
    yield "# Aggregates for `gpusight analyze`, packed: see docs/store.md. Render them anew when its window, step,"
    yield "# threshold of activity or query condition change."
    yield "groups:"
    yield f"  - name: {GROUP}"
    yield f"    interval: {duration(interval)}"
    yield "    rules:"
    for rule in rules:
        yield f"      - record: {rule.record}"
        yield "        expr: |-"
        yield f"          {rule.expr}"
