"""What may become a scrape."""

from typing import Any

import pytest

from gpusight.exposition.blocks import FamilyBlock, Histogram, Rubbish, Sample, check, group
from tests.exposition.test_text import spec

GAUGE = spec("a", labels=("x",))
HISTOGRAM = spec("h_seconds", "histogram", ("x",), buckets=(1.0,))


def test_samples_and_blocks_of_a_family_become_one_block() -> None:
    other = spec("b", labels=("x",))
    block = FamilyBlock(GAUGE, [("2",), ("3",)], [2, 3])
    grouped = group([Sample(GAUGE, ("1",), 1), Sample(other, ("z",), 0), block])
    assert [(b.spec, b.keys, b.values) for b in grouped] == [
        (GAUGE, (("1",), ("2",), ("3",)), (1, 2, 3)),
        (other, (("z",),), (0,)),
    ]


def test_a_block_alone_is_kept_as_it_is() -> None:
    block = FamilyBlock(GAUGE, [("2",)], [2])
    assert group([block]) == [block]


@pytest.mark.parametrize(
    ("family", "key", "value", "why"),
    [
        (GAUGE, ("a", "b"), 1, "declared labels"),
        (GAUGE, (), 1, "declared labels"),
        (GAUGE, (1,), 1, "label values must be text, got int"),
        (GAUGE, ("a",), "1", "got str"),
        (GAUGE, ("a",), None, "got NoneType"),
        (GAUGE, ("a",), Histogram((1, 1), 1.0), "got Histogram"),
        (HISTOGRAM, ("a",), 1, "needs Histogram values"),
        (HISTOGRAM, ("a",), Histogram((1,), 1.0), "1 bucket counts where 2 are declared"),
    ],
)
def test_rubbish_is_named(family: Any, key: Any, value: Any, why: str) -> None:
    with pytest.raises(Rubbish, match=why) as caught:
        check(FamilyBlock(family, [key], [value]))
    assert family.name in str(caught.value)


def test_keys_and_values_must_match() -> None:
    with pytest.raises(Rubbish, match="2 keys but 1 values"):
        FamilyBlock(GAUGE, [("a",), ("b",)], [1])


def test_good_blocks_pass() -> None:
    check(FamilyBlock(GAUGE, [("a",), (None,)], [1, 2.5]))
    check(FamilyBlock(HISTOGRAM, [("a",)], [Histogram((1, 2), 3.0)]))
