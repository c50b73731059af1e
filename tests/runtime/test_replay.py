"""`gpusight replay` from the file to the table, the figure and the error."""

import csv
import gzip
import io
import json
import sys
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from gpusight.analysis.policies import BUILT_IN, SWEEP_WINDOWS
from gpusight.errors import GpusightError, MissingExtra, UsageError
from gpusight.model.series import StoreError
from gpusight.model.time import ManualClock, SystemClock
from gpusight.runtime import replay
from gpusight.runtime.replay import main
from gpusight.runtime.replay_prometheus import PrometheusRange
from gpusight.store.http import HttpConfig
from tests.support.net import free_port
from tests.support.prometheus import needs_prometheus, temporary_prometheus

Series = tuple[dict[str, str], list[tuple[float, float]]]
SMALL = "generated:3,subjects=150,days=3"


def output(trace: str, *policies: str, **options: object) -> str:
    parts: list[str] = []
    assert main(trace, policies, write=parts.append, **options) == 0  # type: ignore[arg-type]
    return "".join(parts)


def write_rows(path: Path, rows: Iterable[str]) -> Path:
    path.write_text("timestamp,subject,util\n" + "".join(f"{row}\n" for row in rows))
    return path


def idle_pod(name: str, minutes: int = 300) -> list[str]:
    return [f"{60 * minute},{name},{90 if minute < 10 else 0}" for minute in range(minutes)]


def test_the_table_compares_all_built_in_policies() -> None:
    text = output(SMALL)
    rows = {line.split()[0] for line in text.splitlines() if line}
    assert set(BUILT_IN) <= rows
    assert sum(line.startswith("window ") for line in text.splitlines()) == len(SWEEP_WINDOWS)
    assert "The smallest window with a 60 min regret below 5.0%" in text
    assert "\x1b" not in text


def test_a_csv_file_plain_and_packed(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "trace.csv", [*idle_pod("a"), "bad line", *idle_pod("b", 400)])
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    texts = [output(str(each), "idle:30m").splitlines() for each in (path, packed)]
    assert texts[0][1:] == texts[1][1:]
    row = next(line.split() for line in texts[0] if line.startswith("idle:30m"))
    assert row[1:3] == ["2", "10"]  # from 40 to 300 and to 400 min
    assert "left out 1: the number of fields is not that of the first line (lines 302)" in texts[0]


def test_json_and_csv(tmp_path: Path) -> None:
    path = str(write_rows(tmp_path / "trace.csv", idle_pod("a")))
    report = json.loads(output(path, "idle:30m", "default", form="json"))
    assert [each["policy"]["name"] for each in report["policies"]] == ["idle:30m", "default"]
    assert report["policies"][0]["reclaims"] == 1
    assert report["assumptions"]
    rows = list(csv.DictReader(io.StringIO(output(path, "idle:30m", form="csv"))))
    assert (rows[0]["part"], rows[0]["reclaims"], rows[0]["regret_60"]) == ("policy", "1", "0.0")
    assert len([row for row in rows if row["part"] == "sweep"]) == len(SWEEP_WINDOWS)


def test_a_saved_trace_gives_the_same_numbers(tmp_path: Path) -> None:
    saved = tmp_path / "trace.csv"
    first = output(SMALL, "default", save_trace=saved).splitlines()
    assert output(str(saved), "default").splitlines()[1:] == first[1:]
    assert [each.name for each in tmp_path.iterdir()] == ["trace.csv"]


def test_the_figure_works_without_a_network(tmp_path: Path) -> None:
    page = tmp_path / "figure.html"
    output(SMALL, "default", figure=page)
    text = page.read_text()
    assert "plotly.js v" in text
    assert "<script src=" not in text
    assert "active again within 60 min" in text


def test_a_figure_without_its_packages_names_the_pip_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"gpusight\[analyze\]"):
        main(SMALL, ["default"], figure=tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []


def test_a_range_is_asked_of_prometheus() -> None:
    asked: list[tuple[str, float, float, float]] = []

    def prom(query: str, start: float, end: float, step: float) -> Iterable[Series]:
        asked.append((query, start, end, step))
        return [({"namespace": "n", "pod": "p"}, [(start + 30 * i, 50.0 if i < 10 else 0.0) for i in range(400)])]

    text = output('prometheus:util{a="b:c"}', "idle:30m", prom=prom, start="1d", step="30s", clock=ManualClock(1e9))
    assert asked == [('util{a="b:c"}', 1e9 - 86400, 1e9, 30)]
    assert 'prometheus:util{a="b:c"}: 1 subjects, 400 samples, one per 30s' in text


def test_times_of_a_range() -> None:
    asked: list[tuple[float, float]] = []

    def prom(query: str, start: float, end: float, step: float) -> Iterable[Series]:
        asked.append((start, end))
        return [({"pod": "p"}, [(start, 5.0)])]

    output("prometheus:q", "idle:30m", prom=prom, start="2024-01-01T00:00:00Z", end="1704070800")
    assert asked == [(1704067200, 1704070800)]


@needs_prometheus
def test_the_saved_answer_of_a_real_prometheus(tmp_path: Path) -> None:
    answer = tmp_path / "trace.json"
    asked = {"query": "50 * (vector(time()) < bool 600)", "start": "0", "end": "18000", "step": "60"}
    with temporary_prometheus(tmp_path, []) as prometheus:
        url = f"{prometheus.url}/api/v1/query_range?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(url, timeout=10) as response:
            answer.write_bytes(response.read())
    report = json.loads(output(str(answer), "idle:30m", form="json"))
    assert report["trace"]["samples"] == 301
    assert report["policies"][0]["median_seconds_to_reclaim"] == 1800
    assert report["policies"][0]["returned_gpu_hours"] == pytest.approx((18060 - 600 - 1800) / 3600)


@needs_prometheus
def test_a_range_of_a_real_prometheus(tmp_path: Path) -> None:
    clock = SystemClock()
    query = 'prometheus:label_replace(50 * (vector(time()) < bool 600), "pod", "p", "", "")'
    with temporary_prometheus(tmp_path, []) as prometheus, PrometheusRange(HttpConfig(prometheus.url), clock) as prom:
        text = output(query, "idle:30m", prom=prom, start="0", end="1200000", step="1m", form="json")
        with pytest.raises(GpusightError, match="answered 400"):
            main("prometheus:nonsense(", [], prom=prom, start="1d")
    report = json.loads(text)
    assert (report["trace"]["subjects"], report["trace"]["samples"]) == (1, 20001)  # more than one query may give
    assert report["policies"][0]["median_seconds_to_reclaim"] == 1800


def test_an_engine_that_is_not_there_is_one_sentence() -> None:
    config = HttpConfig(f"http://user:secret@127.0.0.1:{free_port()}")
    refused = pytest.raises(GpusightError, match="refuses the connection")
    with PrometheusRange(config, SystemClock()) as prom, refused as raised:
        main("prometheus:up", [], prom=prom, start="1d")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"<html>", "web page"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[', "not this API's JSON"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "no usable sample"),
    ],
)
def test_an_answer_of_no_use_is_one_sentence(body: bytes, complaint: str) -> None:
    refused = pytest.raises(GpusightError, match=complaint)
    with answering(body) as url, PrometheusRange(HttpConfig(url), SystemClock()) as prom, refused:
        main("prometheus:up", [], prom=prom, start="1d")


def test_what_the_engine_doubts_is_printed() -> None:
    series = {"metric": {"pod": "p"}, "values": [[60 * minute, "0"] for minute in range(100)]}
    body = {"status": "success", "data": {"resultType": "matrix", "result": [series]}, "warnings": ["partial response"]}
    with answering(json.dumps(body).encode()) as url, PrometheusRange(HttpConfig(url), SystemClock()) as prom:
        assert "warning: Prometheus warned: partial response" in output("prometheus:up", prom=prom, start="1d")


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """An HTTP server that says the same to everybody."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_store_that_fails_is_one_sentence() -> None:
    def prom(query: str, start: float, end: float, step: float) -> Iterable[Series]:
        raise StoreError("prometheus http://h:9090 does not answer")

    with pytest.raises(GpusightError, match="does not answer"):
        main("prometheus:q", [], prom=prom, start="1d")


@pytest.mark.parametrize(
    ("trace", "options", "complaint"),
    [
        (SMALL, {"policies": ["nonsense"]}, "neither RULE:WINDOW"),
        ("generated:x", {}, "generated:SEED"),
        ("prometheus:q", {"start": "1d"}, "needs the address"),
        ("prometheus:q", {"prom": lambda *_: []}, "needs --from"),
        ("prometheus:q", {"prom": lambda *_: [], "start": "yesterday"}, "--from"),
        (SMALL, {"start": "1d"}, "are for prometheus:QUERY"),
        (SMALL, {"step": "fast"}, "--step"),
        (SMALL, {"active_above": 100.0}, "--active-above"),
        (SMALL, {"regret_limit": 0.0}, "--regret-limit"),
    ],
)
def test_wrong_usage_is_one_sentence(trace: str, options: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        main(trace, **{"policies": [], **options})  # type: ignore[arg-type]
    assert complaint in str(raised.value)


@pytest.mark.parametrize("data", [b"", b"a,b\n", b"timestamp,subject,util\n", b"\x1f\x8bnonsense", b"{}", b"\xff\x00"])
def test_an_unusable_file_is_one_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "trace"
    path.write_bytes(data)
    with pytest.raises(GpusightError) as raised:
        main(str(path), [])
    assert str(path) in str(raised.value)


def test_a_packed_file_that_ends_too_soon_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress("\n".join(["timestamp,subject,util", *idle_pod("a")]).encode())[:-20])
    with pytest.raises(GpusightError, match="cannot be read"):
        main(str(path), [])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(GpusightError, match="No such file"):
        main(str(tmp_path / "nothing.csv"), [])


def test_a_figure_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(GpusightError, match="cannot be written: No such file"):
        main(SMALL, ["default"], figure=tmp_path / "no" / "figure.html")


def test_names_cannot_move_the_cursor(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "trace.csv", idle_pod("a"))
    assert "\x1b" not in output(str(path), "idle:30m,name=\x1b[2J")


def test_a_terminal_gets_a_drawn_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    text = output(SMALL, "idle:30m,name=[bold]x")
    assert "\u2502 [bold]x" in text


def test_a_bar_is_drawn_when_somebody_watches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("rich.console.Console", lambda stderr: Console(stderr=stderr, force_terminal=True))
    output(SMALL, "default")
    assert "replay" in capsys.readouterr().err


def test_nobody_watching_gets_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    output(SMALL, "default")
    assert capsys.readouterr().err == ""
