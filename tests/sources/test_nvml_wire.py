"""What parent and child say to each other."""

import marshal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.model.hardware import (
    DeviceDown,
    EccCount,
    GpuProcess,
    GpuReading,
    MigReading,
    NvLink,
    ProcessUtilization,
    RemappedRows,
    XidEvent,
)
from gpusight.sources.nvml.wire import (
    MOST_BYTES,
    Answer,
    Frames,
    Garbled,
    Sweep,
    decode_answer,
    decode_sweep,
    encode_answer,
    encode_sweep,
)

answers = st.builds(
    Answer,
    number=st.integers(0, 2**40),
    state=st.sampled_from(["up", "starting", "down"]),
    reason=st.sampled_from(["", "no_driver", "blocked"]),
    detail=st.text(),
    driver_version=st.none() | st.text(),
    gpus=st.tuples() | st.tuples(st.from_type(GpuReading)) | st.tuples(*[st.from_type(GpuReading)] * 2),
    down=st.tuples() | st.tuples(st.from_type(DeviceDown)),
    xids=st.tuples() | st.tuples(*[st.from_type(XidEvent)] * 3),
    implausible=st.dictionaries(st.text(), st.integers(0)),
    is_simulated=st.booleans(),
)


def _body(frame: bytes) -> bytes:
    frames = Frames()
    frames.feed(frame)
    body = frames.next()
    assert body is not None
    return body


@given(answers)
def test_answers_come_back_as_they_were(answer: Answer) -> None:
    back = decode_answer(_body(encode_answer(answer)))
    assert repr(back) == repr(answer)  # a NaN is not equal to itself


def test_every_part_of_a_reading_comes_back_as_its_own_type() -> None:
    reading: Any = GpuReading(
        uuid="GPU-1", index=0, name="x", taken_at=1.0, remapped_rows=RemappedRows(0, 1, True, False),  # type: ignore[arg-type]
        ecc=(EccCount("corrected", "volatile", 3),), nvlinks=(NvLink(0, True, 1, None, 2),),
        mig=(MigReading("MIG-1", 1, 0, "1g.5gb", gpm={"sm_active": 0.5}),),  # type: ignore[arg-type]
        processes=(GpuProcess(7, "compute", 5),), process_utilization=(ProcessUtilization(7, 0.1, 0.0, 0.0, 0.0),),  # type: ignore[arg-type]
        gpm={"sm_active": 0.25},
    )  # fmt: skip
    back = decode_answer(_body(encode_answer(Answer(1, "up", gpus=(reading,)))))
    assert back.gpus == (reading,)
    assert type(back.gpus[0].mig[0]) is MigReading


@given(st.lists(st.binary(max_size=300), max_size=5), st.integers(1, 50))
def test_messages_are_cut_right_however_they_arrive(bodies: list[bytes], size: int) -> None:
    stream = b"".join(len(body).to_bytes(4, "little") + body for body in bodies)
    frames, found = Frames(), []
    for start in range(0, len(stream), size):
        frames.feed(stream[start : start + size])
        while (body := frames.next()) is not None:
            found.append(body)
    assert found == bodies


def test_a_request_comes_back_as_it_was() -> None:
    assert decode_sweep(_body(encode_sweep(Sweep(7, 1.5)))) == Sweep(7, 1.5)


def test_a_message_that_claims_too_much_is_refused() -> None:
    frames = Frames()
    frames.feed((MOST_BYTES + 1).to_bytes(4, "little"))
    with pytest.raises(Garbled, match="claims"):
        frames.next()


def test_a_message_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(Garbled, match="longer than"):
        encode_answer(Answer(1, "up", detail="x" * (MOST_BYTES + 1)))


@pytest.mark.parametrize(
    "body", [b"", b"\x00", b"(\x05", marshal.dumps(7), marshal.dumps(()), marshal.dumps((1,) * 40)]
)
def test_what_is_not_ours_is_garbled(body: bytes) -> None:
    with pytest.raises(Garbled):
        decode_answer(body)
