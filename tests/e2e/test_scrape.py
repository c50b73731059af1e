"""A real Prometheus scrapes the endpoint: plain, over TLS with a password, and in both formats."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import bcrypt
import pytest
import yaml

from gpusight.exposition.blocks import FamilyBlock, Histogram
from gpusight.exposition.endpoint import Endpoint, Request, Response, Scrape, ScrapeRequest
from gpusight.exposition.text import OPENMETRICS, TEXT, Dialect
from gpusight.model.time import SystemClock
from tests.support.certificates import Authority
from tests.support.prometheus import Prometheus, needs_prometheus, temporary_prometheus
from tests.support.serving import family, serving_in_thread

pytestmark = needs_prometheus

HOSTILE = {
    "plain": "thing",
    "empty-looking": " ",
    "quotes": 'say "x"',
    "backslashes": "C:\\new\\\\dir\\",
    "newlines": "two\nlines\n",
    "escaped newline": "not\\n a newline",
    "forged series": 'a"} 1\nup{job="evil"} 0\n#',
    "carriage return": "a\r\nb\r",
    "controls": "\x01\x07\x08\x0b\x0c\x1a\x1b[31m\x7f\x85\u2028",
    "unicode": "GPU 显卡 é \u0301 \U0001f600 \u202e \ufeff \uffff",
    "comment": "# EOF",
    "braces": '{a="b"}, ',
    "long": "x" * 4000,
}
GAUGE = family("e2e_value", "gauge", "case", "label")
COUNTER = family("e2e_events_total", "counter", "case")
BARE_COUNTER = family("e2e_total_runs", "counter")
TOOK = family("e2e_took_seconds", "histogram", "case", buckets=(0.1, 1.0, 2.5))
NUMBERS = [0, -1, 2**53, 0.1, 1e-300, 1.7976931348623157e308, float("inf"), float("-inf"), float("nan"), 1.5, 3, 4, 5]


class Recording(Endpoint):
    """Remembers what it answered; may turn a deaf ear to Accept, so that Prometheus 2.42 is answered in plain text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(self.collect, **options)
        self.content_types: set[str] = set()
        self.encodings: set[str] = set()
        self.timeouts: set[float] = set()
        self.is_deaf = False

    async def collect(self, request: ScrapeRequest) -> Scrape:
        self.timeouts.add(request.timeout)
        cases = list(HOSTILE)
        return Scrape(
            [
                FamilyBlock(GAUGE, HOSTILE.items(), NUMBERS),
                FamilyBlock(COUNTER, [(case,) for case in cases], range(len(cases))),
                FamilyBlock(BARE_COUNTER, [()], [7]),
                FamilyBlock(TOOK, [("a",)], [Histogram((1, 2, 0, 3), 12.5)]),
            ]
        )

    async def respond(self, request: Request) -> Response:
        if self.is_deaf:
            request = replace(request, headers={**(request.headers or {}), "accept": ""})
        response = await super().respond(request)
        headers = dict(response.headers)
        if response.status == 200:
            self.content_types.add(headers["Content-Type"])
            self.encodings.add(headers.get("Content-Encoding", ""))
        return response


def recording(*, is_deaf: bool = False) -> Recording:
    endpoint = Recording(role="test", title="E2E", version="0", is_ready=lambda: True, clock=SystemClock())
    endpoint.is_deaf = is_deaf
    return endpoint


def job(name: str, port: int, **more: Any) -> dict[str, Any]:
    target = {"job_name": name, "static_configs": [{"targets": [f"localhost:{port}"]}], "honor_labels": True}
    return {**target, "scrape_interval": "500ms", "scrape_timeout": "500ms", **more}


def secured(directory: Path) -> tuple[Path, dict[str, Any]]:
    """A web configuration with TLS and a user, and what Prometheus must be told of it."""
    authority = Authority(directory)
    authority.issue("server")
    config = directory / "web.yml"
    content = {
        "tls_server_config": {"cert_file": "server.pem", "key_file": "server.key"},
        "basic_auth_users": {"prometheus": bcrypt.hashpw(b"s3cr3t", bcrypt.gensalt(4)).decode()},
    }
    config.write_text(yaml.safe_dump(content))
    login = {"username": "prometheus", "password": "s3cr3t"}
    return config, {"scheme": "https", "tls_config": {"ca_file": str(authority.cert)}, "basic_auth": login}


def values(prometheus: Prometheus, expression: str, label: str) -> dict[str, str]:
    return {series["metric"].get(label, ""): series["value"][1] for series in prometheus.query(expression)}


def check_values(prometheus: Prometheus, name: str, dialect: Dialect) -> None:
    """Everything that was given is found again, and nothing else."""
    found = {s["metric"]["case"]: s for s in prometheus.query(f'e2e_value{{job="{name}"}}')}
    assert {case: series["metric"]["label"] for case, series in found.items()} == HOSTILE
    for case, number in zip(HOSTILE, NUMBERS, strict=True):
        assert str(float(found[case]["value"][1])) == str(float(number)), case
    events = values(prometheus, f'e2e_events_total{{job="{name}"}}', "case")
    assert events == {case: str(i) for i, case in enumerate(HOSTILE)}
    bare = dialect.sample_name(BARE_COUNTER)
    assert values(prometheus, f'{bare}{{job="{name}"}}', "job") == {name: "7"}
    buckets = values(prometheus, f'e2e_took_seconds_bucket{{job="{name}"}}', "le")
    assert {float(le): int(count) for le, count in buckets.items()} == {0.1: 1, 1.0: 3, 2.5: 3, float("inf"): 6}
    assert values(prometheus, f'e2e_took_seconds_sum{{job="{name}"}}', "case") == {"a": "12.5"}
    assert values(prometheus, f'gpusight_scrapes_rejected_total{{job="{name}"}}', "reason")["busy"] == "0"


# --- which characters Prometheus' parser takes inside label values: the ground under `text.escape` ---

CHARACTERS = [*(c for c in range(0x20) if chr(c) != "\n"), 0x7F, 0x80, 0x85, 0xA0, 0x2028, 0xFEFF, 0xFFFF, 0x10FFFF]


def raw_page(dialect: Dialect) -> bytes:
    lines = [f'probe{{code="{c}",value="a{chr(c)}b{chr(c)}"}} 1\n' for c in CHARACTERS]
    return "".join(["# TYPE probe gauge\n", *lines]).encode() + dialect.trailer


@contextmanager
def raw_server() -> Iterator[int]:
    """Serves the pages as they are, without our encoder."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            dialect = OPENMETRICS if "openmetrics" in self.path else TEXT
            body = raw_page(dialect)
            self.send_response(200)
            self.send_header("Content-Type", dialect.content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


# --- one Prometheus scrapes everything ---


class Scraped(NamedTuple):
    prometheus: Prometheus
    plain: Recording
    secure: Recording
    modern: Recording


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """Everything has been scraped at least once. (One for all tests: Prometheus takes 5 s to find its targets.)"""
    directory = tmp_path_factory.mktemp("scraped")
    config, access = secured(directory)
    plain, secure, modern = recording(is_deaf=True), recording(is_deaf=True), recording()
    with ExitStack() as stack:
        open_port = stack.enter_context(serving_in_thread(plain)).port
        tls_port = stack.enter_context(serving_in_thread(secure, web_config=config)).port
        modern_port = stack.enter_context(serving_in_thread(modern)).port
        raw_port = stack.enter_context(raw_server())
        wrong = {**access, "basic_auth": {"username": "prometheus", "password": "x"}}
        jobs = [
            job("plain", open_port),
            job("secure", tls_port, **access),
            job("stranger", tls_port, **wrong),
            job("openmetrics", modern_port),
            job("raw text", raw_port, metrics_path="/text"),
            job("raw openmetrics", raw_port, metrics_path="/openmetrics"),
        ]
        prometheus = stack.enter_context(temporary_prometheus(directory, jobs))
        prometheus.wait_until(lambda p: len(p.query("up")) == len(jobs))
        yield Scraped(prometheus, plain, secure, modern)


def test_all_scrapes_succeed_without_a_parse_error(scraped: Scraped) -> None:
    up = values(scraped.prometheus, "up", "job")
    targets = scraped.prometheus.targets()
    for name in ("plain", "secure", "openmetrics"):
        assert (up[name], targets[name]["lastError"]) == ("1", "")
    assert not scraped.prometheus.query('up{job="evil"}')


@pytest.mark.parametrize(("name", "dialect"), [("plain", TEXT), ("secure", TEXT), ("openmetrics", OPENMETRICS)])
def test_all_that_was_given_is_read_back(scraped: Scraped, name: str, dialect: Dialect) -> None:
    check_values(scraped.prometheus, name, dialect)


def test_prometheus_asks_for_openmetrics_by_itself(scraped: Scraped) -> None:
    assert scraped.modern.content_types == {OPENMETRICS.content_type}
    assert scraped.plain.content_types == scraped.secure.content_types == {TEXT.content_type}


def test_prometheus_gets_it_compressed_and_in_its_time(scraped: Scraped) -> None:
    for endpoint in (scraped.plain, scraped.secure, scraped.modern):
        assert endpoint.encodings == {"gzip"}
        assert endpoint.timeouts == {0.1}, "500 ms less the 500 ms kept for sending, but never less than 100 ms"


def test_a_wrong_password_is_refused_and_counted(scraped: Scraped) -> None:
    prometheus = scraped.prometheus
    assert values(prometheus, 'up{job="stranger"}', "job") == {"stranger": "0"}
    assert prometheus.targets()["stranger"]["lastError"] == "server returned HTTP status 401 Unauthorized"
    counted = 'gpusight_scrapes_rejected_total{job="secure",reason="auth"}'
    prometheus.wait_until(lambda p: float(values(p, counted, "job")["secure"]) > 0)
    assert values(prometheus, "gpusight_web_config_reload_success", "job") == {"secure": "1"}


@pytest.mark.parametrize("name", ["raw text", "raw openmetrics"])
def test_prometheus_takes_every_control_character_in_a_label_value(scraped: Scraped, name: str) -> None:
    """Even NUL and carriage return, in both formats, and gives them back unchanged."""
    assert values(scraped.prometheus, f'up{{job="{name}"}}', "job") == {name: "1"}
    series = scraped.prometheus.query(f'probe{{job="{name}"}}')
    found = {int(one["metric"]["code"]): one["metric"]["value"] for one in series}
    assert found == {c: f"a{chr(c)}b{chr(c)}" for c in CHARACTERS}
