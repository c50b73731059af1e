"""Units are converted in one place, there and back."""

from hypothesis import given
from hypothesis import strategies as st

from gpusight.model import units
from gpusight.model.units import Bytes, MiB, Percent, Ratio, Seconds


@given(st.integers(0, 2**50))
def test_bytes_survive_a_trip_through_mib(value: int) -> None:
    assert units.mib_to_bytes(units.bytes_to_mib(Bytes(value))) == value


def test_known_values() -> None:
    assert units.mib_to_bytes(MiB(16384)) == 17179869184
    assert units.percent_to_ratio(Percent(25)) == 0.25
    assert units.ratio_to_percent(Ratio(0.25)) == Percent(25.0)
    assert units.seconds_to_ms(Seconds(0.0028)) == 2.8
