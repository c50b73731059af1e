"""Families as columns."""

from gpusight.collectors.columns import column, kept
from tests.exposition.test_text import spec

GAUGE = spec("a", labels=("x",))
KEYS = (("one",), ("two",))


def test_equal_keys_are_the_same_object() -> None:
    first = kept(tuple((str(number),) for number in range(3)))
    assert kept(tuple((str(number),) for number in range(3))) is first


def test_a_column_that_is_all_known_keeps_its_keys() -> None:
    (block,) = column(GAUGE, KEYS, [1, 0])
    assert block.keys is KEYS
    assert block.values == (1, 0)


def test_what_is_not_known_has_no_series() -> None:
    (block,) = column(GAUGE, KEYS, [None, 0.0])
    assert (block.keys, block.values) == ((("two",),), (0.0,))
    assert list(column(GAUGE, KEYS, [None, None])) == []
    assert list(column(GAUGE, (), [])) == []
