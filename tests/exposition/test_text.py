"""The encoders against oracles: prometheus_client's parsers and promtool."""

import math
import random
import shutil
import subprocess
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gpusight.catalog.spec import FamilySpec, Kind, Label
from gpusight.exposition.blocks import FamilyBlock, Histogram, Value
from gpusight.exposition.text import OPENMETRICS, TEXT, Renderer, encode, escape, format_number

# What UTF-8 cannot carry is spelled out, all else comes back.
label_text = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False))


def spec(name: str = "a_gauge", kind: Kind = "gauge", labels: Sequence[str] = ("x", "y"), **more: object) -> FamilySpec:
    return FamilySpec(
        name=name,
        kind=kind,
        unit="count",
        labels=tuple(Label(label, label) for label in labels),
        help="What it is.",
        origin="gpusight",
        endpoint="ops",
        **more,  # type: ignore[arg-type]
    )


def one(family: FamilySpec, value: Value, *labels: str | None) -> FamilyBlock:
    return FamilyBlock(family, [labels], [value])


class TestText:
    def test_names_stay_as_declared_and_integers_are_integers(self) -> None:
        counter = spec("gpu_total_executions", "counter", ())
        total = spec("nvshare_gpu_memory_total_bytes", "gauge", ("gpu_uuid", "gpu_index"))
        assert encode([one(counter, 3), one(total, 17179869184, "GPU-x", "0")]).decode() == (
            "# HELP gpu_total_executions What it is.\n# TYPE gpu_total_executions counter\ngpu_total_executions 3\n"
            "# HELP nvshare_gpu_memory_total_bytes What it is.\n# TYPE nvshare_gpu_memory_total_bytes gauge\n"
            'nvshare_gpu_memory_total_bytes{gpu_uuid="GPU-x",gpu_index="0"} 17179869184\n'
        )

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (1.0, "1"),
            (17179869184.0, "17179869184"),
            (0.1, "0.1"),
            (1e22, "1e+22"),
            (-0.5, "-0.5"),
            (True, "1"),
            (math.inf, "+Inf"),
            (-math.inf, "-Inf"),
            (math.nan, "NaN"),
            (2**70, str(2**70)),
            pytest.param(10**5000, "+Inf", id="too long for repr"),
        ],
    )
    def test_numbers(self, value: float, text: str) -> None:
        assert encode([one(spec(labels=()), value)]).decode().splitlines()[-1] == f"a_gauge {text}"

    def test_one_special_number_does_not_disturb_its_neighbours(self) -> None:
        values = [1, 2.0, math.nan, 10**5000, 0.25, -math.inf]
        block = FamilyBlock(spec(labels=("x",)), [(str(i),) for i in range(len(values))], values)
        lines = encode([block]).decode().splitlines()[2:]
        assert [line.split()[1] for line in lines] == ["1", "2", "NaN", "+Inf", "0.25", "-Inf"]

    def test_special_numbers_are_found_when_they_cancel_out(self) -> None:
        block = FamilyBlock(spec(labels=("x",)), [("a",), ("b",), ("c",)], [math.inf, -math.inf, 1.5])
        assert encode([block]).decode().splitlines()[2:] == [
            'a_gauge{x="a"} +Inf',
            'a_gauge{x="b"} -Inf',
            'a_gauge{x="c"} 1.5',
        ]

    def test_absent_labels_are_left_out(self) -> None:
        page = encode([FamilyBlock(spec(), [(None, None), ("1", None), (None, "2")], [1, 2, 3])]).decode()
        assert page.splitlines()[2:] == ["a_gauge 1", 'a_gauge{x="1"} 2', 'a_gauge{y="2"} 3']

    def test_histogram(self) -> None:
        histogram = spec("a_seconds", "histogram", ("x",), buckets=(0.5, 1.0))
        assert encode([one(histogram, Histogram((1, 2, 3), 4.5), "v")]).decode().splitlines()[2:] == [
            'a_seconds_bucket{x="v",le="0.5"} 1',
            'a_seconds_bucket{x="v",le="1"} 3',
            'a_seconds_bucket{x="v",le="+Inf"} 6',
            'a_seconds_sum{x="v"} 4.5',
            'a_seconds_count{x="v"} 6',
        ]

    def test_headers_without_samples_on_request(self) -> None:
        first, second = spec("a", labels=()), spec("b", labels=())
        page = encode([one(first, 1)], headers_for=[first, second]).decode()
        assert page.count("# TYPE a gauge") == 1
        assert page.endswith("# HELP b What it is.\n# TYPE b gauge\n")

    def test_help_is_escaped(self) -> None:
        family = FamilySpec(
            name="a", kind="gauge", unit="count", help='back\\slash "q"\nline', origin="gpusight", endpoint="ops"
        )
        assert encode([one(family, 1)]).decode().splitlines()[0] == '# HELP a back\\\\slash "q"\\nline'
        assert '\\"q\\"' in encode([one(family, 1)], dialect=OPENMETRICS).decode()

    @given(st.lists(st.tuples(label_text, label_text), unique=True, max_size=5), st.data())
    def test_what_is_parsed_back_equals_what_was_given(self, keys: list[tuple[str, str]], data: st.DataObject) -> None:
        values = data.draw(st.lists(numbers, min_size=len(keys), max_size=len(keys)))
        page = encode([FamilyBlock(spec(), keys, values)]).decode()
        [family] = parse_text(page)
        assert [(s.labels["x"], s.labels["y"], s.value) for s in family.samples] == [
            (*key, float(value)) for key, value in zip(keys, values, strict=True)
        ]

    @given(st.lists(st.tuples(label_text, label_text), unique=True, max_size=5))
    def test_openmetrics_is_parsed_back_too(self, keys: list[tuple[str, str]]) -> None:
        counter = spec("gpu_total_executions", "counter")
        page = encode([FamilyBlock(counter, keys, range(len(keys)))], dialect=OPENMETRICS).decode()
        [family] = parse_openmetrics(page)
        assert (family.name, family.type) == ("gpu_total_executions", "counter")
        assert [(s.name, s.labels["x"], s.labels["y"]) for s in family.samples] == [
            ("gpu_total_executions_total", *key) for key in keys
        ]

    @given(st.text())
    def test_no_text_ever_leaves_its_quotes(self, text: str) -> None:
        page = encode([one(spec(labels=("x",)), 1, text)])
        assert len(page.decode("utf-8").split("\n")) == 4
        [family] = parse_text(page.decode())
        assert len(family.samples) == 1

    def test_what_utf8_cannot_carry_is_spelled_out_and_stays_apart(self) -> None:
        page = encode([FamilyBlock(spec(labels=("x",)), [("\udc80",), ("\udc81",), ("a\0b",)], [1, 2, 3])])
        assert page.decode().splitlines()[2:] == [
            'a_gauge{x="\\\\udc80"} 1',
            'a_gauge{x="\\\\udc81"} 2',
            'a_gauge{x="a\0b"} 3',
        ]

    def test_a_megabyte_in_a_label(self) -> None:
        assert len(encode([one(spec(labels=("x",)), 1, '"' * 2**20)])) > 2**21


class TestOpenMetrics:
    def test_counters_end_in_total_and_the_page_in_eof(self) -> None:
        page = encode([one(spec("a_total", "counter", ()), 1)], dialect=OPENMETRICS).decode()
        assert page == "# HELP a What it is.\n# TYPE a counter\na_total 1\n# EOF\n"

    def test_bucket_bounds_are_floats(self) -> None:
        histogram = spec("a_seconds", "histogram", (), buckets=(1.0,))
        page = encode([one(histogram, Histogram((1, 0), 0.5))], dialect=OPENMETRICS).decode()
        assert 'a_seconds_bucket{le="1.0"} 1' in page
        list(parse_openmetrics(page))

    def test_content_types_name_their_version(self) -> None:
        assert TEXT.content_type == "text/plain; version=0.0.4; charset=utf-8"
        assert OPENMETRICS.content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"


class TestRenderer:
    def test_a_renderer_with_a_past_writes_what_a_fresh_one_writes(self) -> None:
        """Random changes of keys and values, over several stretches, with every kind of family."""
        rng = random.Random(7)
        families = [spec("a"), spec("b_total", "counter"), spec("c_seconds", "histogram", buckets=(1.0,))]
        renderers = Renderer(TEXT), Renderer(OPENMETRICS)
        sizes = {family: rng.randrange(1, 6000) for family in families}
        keys = {family: [(f"k{i}", "v") for i in range(sizes[family])] for family in families}
        values = {family: [0] * sizes[family] for family in families}
        for _ in range(25):
            family = rng.choice(families)
            match rng.randrange(4):
                case 0:
                    values[family][rng.randrange(len(values[family]))] += rng.randrange(5)
                case 1:
                    values[family] = [rng.random() * 10 for _ in values[family]]  # type: ignore[misc]
                case 2:
                    keys[family].append((f"new{rng.random()}", 'odd"\n'))
                    values[family].append(1)
                case 3 if len(keys[family]) > 1:
                    gone = rng.randrange(len(keys[family]))
                    del keys[family][gone], values[family][gone]
            blocks = [_block(f, keys[f], values[f]) for f in families if rng.random() < 0.9]
            for renderer in renderers:
                assert renderer.render(blocks) == encode(blocks, dialect=renderer.dialect)

    def test_duplicates_are_dropped_and_counted(self) -> None:
        renderer = Renderer()
        family = spec(labels=("x",))
        block = FamilyBlock(family, [("a",), ("b",), ("a",), ("a",)], [1, 2, 3, 4])
        assert renderer.render([block]).decode().splitlines()[2:] == ['a_gauge{x="a"} 1', 'a_gauge{x="b"} 2']
        assert renderer.duplicates == 2
        changed = FamilyBlock(family, [("a",), ("b",), ("a",), ("a",)], [9, 8, 7, 6])
        assert renderer.render([changed]).decode().splitlines()[2:] == ['a_gauge{x="a"} 9', 'a_gauge{x="b"} 8']

    def test_duplicate_histograms_are_dropped_whole(self) -> None:
        histogram = spec("a_seconds", "histogram", ("x",), buckets=(1.0,))
        block = FamilyBlock(histogram, [("a",), ("a",)], [Histogram((1, 0), 0.5), Histogram((7, 0), 0.5)])
        assert encode([block]).count(b"_count{") == 1

    def test_families_that_are_gone_are_forgotten(self) -> None:
        renderer = Renderer()
        renderer.render([one(spec(), 1, "a", "b")])
        renderer.render([])
        assert renderer._families == {}


def _block(family: FamilySpec, keys: list[tuple[str, str]], values: list[int]) -> FamilyBlock:
    if family.kind == "histogram":
        return FamilyBlock(family, keys, [Histogram((int(v), 1), v) for v in values])
    return FamilyBlock(family, keys, values)


@given(numbers)
def test_numbers_read_back_equal(number: float) -> None:
    assert float(format_number(number)) == float(number)


def test_plain_text_is_not_touched() -> None:
    assert escape("NVIDIA A100-SXM4-80GB") == "NVIDIA A100-SXM4-80GB"


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed (Debian package prometheus)")
def test_promtool_finds_a_hostile_page_clean() -> None:
    values = [
        "",
        "\\",
        '"',
        "\n",
        "\r",
        "\0",
        "\x7f",
        "\u2028",
        "\ud800",
        "中文",
        "🚀",
        'x"} 1\nforged{y="',
        "a" * 2000,
    ]
    family = spec("gpusight_hostile_info", labels=("x",))
    page = encode([FamilyBlock(family, [(v,) for v in values], [1] * len(values))])
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
