"""Requests to responses, without a socket."""

import asyncio
import gzip
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gpusight.catalog.own import SCRAPES_REJECTED
from gpusight.exposition import endpoint as module
from gpusight.exposition.blocks import FamilyBlock, Histogram
from gpusight.exposition.endpoint import (
    Endpoint,
    Request,
    Response,
    Scrape,
    ScrapeRequest,
    UnknownCollector,
    names_of,
    scrape_timeout,
)
from gpusight.exposition.text import OPENMETRICS, TEXT, Dialect, Renderer
from gpusight.model.time import ManualClock
from tests.exposition.test_negotiate import PROMETHEUS_2_42, PROMETHEUS_3
from tests.support.serving import THINGS, Fixed, endpoint, family, things


def ask(to: Endpoint, path: str = "/metrics", method: str = "GET", query: str = "", **headers: str) -> Response:
    return asyncio.run(send(to, path, method, query, **headers))


async def send(to: Endpoint, path: str = "/metrics", method: str = "GET", query: str = "", **headers: str) -> Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return await to.respond(Request(method, path, query, given))


def header(response: Response, name: str) -> str:
    return dict(response.headers).get(name, "")


class Gate:
    """A gather that waits until it is let through."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.calls: list[ScrapeRequest] = []

    async def __call__(self, request: ScrapeRequest) -> Scrape:
        self.calls.append(request)
        await self.opened.wait()
        return Scrape([things()])


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


# --- the pages ---


@pytest.mark.parametrize("path", ["/health", "/healthz", "/-/healthy"])
def test_health_is_plain_ok(path: str) -> None:
    answer = ask(endpoint(), path)
    assert (answer.status, answer.body) == (200, b"OK\n")
    assert header(answer, "Content-Type") == "text/plain; charset=utf-8"


def test_health_text_can_be_another() -> None:
    assert ask(endpoint(health_text="fine"), "/healthz").body == b"fine\n"


def test_readiness_comes_with_the_first_cycle() -> None:
    ready: list[int] = []
    to = endpoint(is_ready=lambda: bool(ready))
    before = ask(to, "/-/ready")
    ready.append(1)
    assert (before.status, header(before, "Retry-After")) == (503, "1")
    assert ask(to, "/-/ready").status == 200


def test_health_and_landing_do_not_wait_for_readiness_or_collectors() -> None:
    async def hang(_request: ScrapeRequest) -> Scrape:
        await asyncio.Event().wait()
        raise AssertionError

    to = endpoint(hang, is_ready=lambda: False)
    assert [ask(to, path).status for path in ("/health", "/-/healthy", "/")] == [200, 200, 200]


def test_the_landing_page_links_and_notes() -> None:
    answer = ask(endpoint(links=[("/api", "The API")], notes=["Half & half"], role="node"), "/")
    assert header(answer, "Content-Type") == "text/html; charset=utf-8"
    for part in (b'href="/metrics"', b'href="/api"', b"The API", b"Half &amp; half", b"gpusight 1.2.3, role node"):
        assert part in answer.body


def test_the_telemetry_path_can_be_another() -> None:
    to = endpoint(telemetry_path="/probe")
    assert [ask(to, path).status for path in ("/probe", "/metrics")] == [200, 404]
    assert b'href="/probe"' in ask(to, "/").body


@pytest.mark.parametrize("path", ["/notexist", "/metrics/", "//metrics", "/Metrics", "", "*", "/-/reload"])
def test_anything_else_is_not_found(path: str) -> None:
    assert ask(endpoint(), path).status == 404
    assert ask(endpoint(), path, "POST").status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "BREW"])
@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/-/ready", "/"])
def test_other_methods_are_told_which_are_allowed(path: str, method: str) -> None:
    answer = ask(endpoint(), path, method)
    assert (answer.status, header(answer, "Allow")) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/-/ready", "/", "/notexist"])
@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_head_has_the_headers_of_get_and_no_body(path: str, encoding: str) -> None:
    to = endpoint(Fixed(things(500)))
    get, head = (ask(to, path, method, accept_encoding=encoding) for method in ("GET", "HEAD"))
    assert (head.status, head.headers, head.body) == (get.status, get.headers, b"")
    assert header(head, "Content-Length") == str(len(get.body))
    assert len(get.body) > 0


# --- formats ---


@pytest.mark.parametrize(
    ("accept", "dialect"), [("", TEXT), ("*/*", TEXT), (PROMETHEUS_2_42, OPENMETRICS), (PROMETHEUS_3, OPENMETRICS)]
)
def test_the_content_type_is_one_that_we_speak(accept: str, dialect: Dialect) -> None:
    answer = ask(endpoint(), accept=accept)
    assert header(answer, "Content-Type") == dialect.content_type
    assert answer.body.endswith(b"# EOF\n") == (dialect is OPENMETRICS)
    assert header(answer, "Vary") == "Accept, Accept-Encoding"


def test_openmetrics_can_be_withheld() -> None:
    answer = ask(endpoint(openmetrics=False), accept=PROMETHEUS_2_42)
    assert header(answer, "Content-Type") == TEXT.content_type


def test_openmetrics_2_is_not_echoed() -> None:
    answer = ask(endpoint(), accept="application/openmetrics-text;version=2.0.0")
    assert header(answer, "Content-Type") == "text/plain; version=0.0.4; charset=utf-8"


def test_large_pages_are_compressed_for_who_wants_it() -> None:
    to = endpoint(Fixed(things(5000)))
    plain, packed = ask(to), ask(to, accept_encoding="gzip")
    assert header(packed, "Content-Encoding") == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body) / 3
    assert packed.body[8] == 4  # the header's note of level 1
    assert "Content-Encoding" not in dict(plain.headers)
    assert header(ask(to, accept_encoding="gzip;q=0"), "Content-Encoding") == ""


def test_small_pages_are_not_compressed() -> None:
    answer = ask(endpoint(), query="name[]=test_things", accept_encoding="gzip")
    assert 0 < len(answer.body) < 1024
    assert header(answer, "Content-Encoding") == ""
    assert header(answer, "Vary") == "Accept, Accept-Encoding"


@pytest.mark.parametrize(("count", "is_off_loop"), [(100, False), (20_000, True)])
def test_large_pages_are_made_off_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, count: int, is_off_loop: bool
) -> None:
    seen: list[threading.Thread] = []

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **options: Any) -> Any:
            seen.append(threading.current_thread())
            return function(*args, **options)

        return noted

    monkeypatch.setattr(Renderer, "render", note(Renderer.render))
    monkeypatch.setattr(gzip, "compress", note(gzip.compress))
    assert ask(endpoint(Fixed(things(count))), accept_encoding="gzip").status == 200
    assert len(seen) == 2
    assert all((thread is not threading.main_thread()) == is_off_loop for thread in seen)


# --- filters and timeouts ---

HITS = family("test_hits_total", "counter", "kind")
RUNS = family("test_runs", "counter")
TOOK = family("test_took_seconds", "histogram", buckets=(1.0,))
EMPTY = family("test_empty")


def varied() -> Fixed:
    return Fixed(
        things(),
        FamilyBlock(HITS, [("a",)], [1]),
        FamilyBlock(RUNS, [()], [2]),
        FamilyBlock(TOOK, [()], [Histogram((1, 0), 0.5)]),
        headers_for=[EMPTY],
    )


@pytest.mark.parametrize(
    ("names", "families"),
    [
        (["test_things"], {"test_things"}),
        (["test_hits_total"], {"test_hits_total"}),
        (["test_hits"], {"test_hits_total"}),
        (["test_runs"], {"test_runs"}),
        (["test_runs_total"], {"test_runs"}),
        (["test_took_seconds"], {"test_took_seconds"}),
        (["test_took_seconds_bucket"], {"test_took_seconds"}),
        (["test_took_seconds_count"], {"test_took_seconds"}),
        (["test_empty"], {"test_empty"}),
        (["test_things", "test_hits"], {"test_things", "test_hits_total"}),
        (["gpusight_scrapes_rejected_total"], {"gpusight_scrapes_rejected_total"}),
        (["nothing"], set()),
    ],
)
@pytest.mark.parametrize("accept", ["", PROMETHEUS_2_42])
def test_names_choose_families_in_either_spelling(names: list[str], families: set[str], accept: str) -> None:
    gather = varied()
    answer = ask(endpoint(gather), query="&".join(f"name%5B%5D={name}" for name in names), accept=accept)
    shown = {line.split()[2] for line in answer.body.decode().splitlines() if line.startswith("# TYPE")}
    if accept:
        families = {"test_hits" if f == "test_hits_total" else f.removesuffix("_rejected_total") for f in families}
        shown = {name.removesuffix("_rejected") for name in shown}
    assert shown == families
    assert gather.asked[0].names == frozenset(names)


def test_every_name_of_a_family() -> None:
    assert names_of(HITS) == {"test_hits_total", "test_hits"}
    assert names_of(RUNS) == {"test_runs", "test_runs_total"}
    assert names_of(TOOK) == {"test_took_seconds"} | {
        f"test_took_seconds_{part}" for part in ("bucket", "sum", "count")
    }


def test_collectors_are_passed_on() -> None:
    gather = varied()
    answer = ask(endpoint(gather), query="collect[]=a&collect%5B%5D=b&collect[]=&other=x&collect[]=a")
    assert gather.asked == [ScrapeRequest(frozenset(), frozenset({"a", "b"}), 10.0)]
    assert b"gpusight_scrapes_rejected_total" not in answer.body


def test_an_unknown_collector_is_the_clients_mistake() -> None:
    async def gather(request: ScrapeRequest) -> Scrape:
        raise UnknownCollector("there is no collector 'gpus'; there are: node, vgpu")

    answer = ask(endpoint(gather), query="collect[]=gpus")
    assert (answer.status, answer.body) == (400, b"there is no collector 'gpus'; there are: node, vgpu\n")
    assert header(answer, "X-Content-Type-Options") == "nosniff"


@pytest.mark.parametrize(
    ("granted", "timeout"),
    [
        ("10", 9.5),
        ("3", 2.5),
        ("30", 10.0),
        ("0.55", 0.1),
        ("0.1", 0.1),
        *((garbage, 10.0) for garbage in ("", "x", "nan", "inf", "-inf", "-1", "0", "1e999", "10s", "1,5", "0x10")),
    ],
)
def test_the_scrape_timeout_is_honoured(granted: str, timeout: float) -> None:
    assert scrape_timeout(granted, 10.0) == pytest.approx(timeout)
    gather = Fixed()
    ask(endpoint(gather), x_prometheus_scrape_timeout_seconds=granted)
    assert gather.asked[0].timeout == pytest.approx(timeout)


def test_a_gather_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "_GATHER_GRACE", 0.01)

    async def hang(_request: ScrapeRequest) -> Scrape:
        await asyncio.Event().wait()
        raise AssertionError

    to = endpoint(hang)
    answer = ask(to, x_prometheus_scrape_timeout_seconds="0.1")
    assert answer.status == 503
    assert header(answer, "Retry-After") == "5"
    assert rejected(to)["timeout"] == 1
    assert "did not answer in time" in caplog.text


# --- many at once ---


def rejected(to: Endpoint) -> dict[str | None, Any]:
    (block,) = to._rejections()
    assert block.spec is SCRAPES_REJECTED
    return {key[0]: value for key, value in zip(block.keys, block.values, strict=True)}


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


def test_a_thousand_identical_scrapes_share_one() -> None:
    async def scenario() -> None:
        gate = Gate()
        to = endpoint(gate, max_requests=1)
        asked = [asyncio.create_task(send(to)) for _ in range(1000)]
        await settle()
        gate.opened.set()
        answers = await asyncio.gather(*asked)
        assert len(gate.calls) == 1
        assert {answer.status for answer in answers} == {200}
        assert len({id(answer.body) for answer in answers}) == 1
        assert (await send(to)).status == 200
        assert len(gate.calls) == 2

    run(scenario)


def test_formats_share_the_collection_only() -> None:
    async def scenario() -> None:
        gate = Gate()
        to = endpoint(gate)
        asked = [asyncio.create_task(send(to, accept=accept)) for accept in ("", PROMETHEUS_2_42)]
        await settle()
        gate.opened.set()
        text, openmetrics = await asyncio.gather(*asked)
        assert len(gate.calls) == 1
        assert text.body != openmetrics.body

    run(scenario)


def test_different_scrapes_beyond_the_limit_are_turned_away() -> None:
    async def scenario() -> None:
        gate = Gate()
        to = endpoint(gate, max_requests=2)
        kept = [asyncio.create_task(send(to, query=f"name[]={i}")) for i in range(2)]
        await settle()
        refused = await send(to, query="name[]=3")
        assert (refused.status, header(refused, "Retry-After")) == (503, "1")
        joined = asyncio.create_task(send(to, query="name[]=1"))
        await settle()
        gate.opened.set()
        assert [answer.status for answer in await asyncio.gather(*kept, joined)] == [200] * 3
        assert rejected(to) == {"auth": 0, "busy": 1, "connections": 0, "timeout": 0}
        page = await send(to)
        assert b'gpusight_scrapes_rejected_total{reason="busy"} 1\n' in page.body

    run(scenario)


def test_waiting_clients_are_limited_too() -> None:
    async def scenario() -> None:
        gate = Gate()
        to = endpoint(gate, max_waiting=5)
        asked = [asyncio.create_task(send(to)) for _ in range(8)]
        await settle()
        gate.opened.set()
        assert sorted(answer.status for answer in await asyncio.gather(*asked)) == [200] * 5 + [503] * 3

    run(scenario)


def test_zero_means_no_limit() -> None:
    async def scenario() -> None:
        gate = Gate()
        to = endpoint(gate, max_requests=0)
        asked = [asyncio.create_task(send(to, query=f"name[]={i}")) for i in range(100)]
        await settle()
        gate.opened.set()
        assert {answer.status for answer in await asyncio.gather(*asked)} == {200}

    run(scenario)


def test_a_client_that_leaves_does_not_end_it_for_the_others() -> None:
    async def scenario() -> None:
        gate = Gate()
        to = endpoint(gate)
        leaves, stays = asyncio.create_task(send(to)), asyncio.create_task(send(to))
        await settle()
        leaves.cancel()
        await settle()
        gate.opened.set()
        assert (await stays).status == 200
        assert len(gate.calls) == 1

    run(scenario)


def test_a_failure_that_nobody_waits_for_is_no_noise(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        opened = asyncio.Event()

        async def fail(_request: ScrapeRequest) -> Scrape:
            await opened.wait()
            raise RuntimeError("lost")

        only = asyncio.create_task(send(endpoint(fail)))
        await settle()
        only.cancel()
        opened.set()
        await settle()

    run(scenario)
    assert caplog.text == ""


# --- what goes wrong ---


def test_a_failing_gather_is_a_500_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_request: ScrapeRequest) -> Scrape:
        raise RuntimeError("the sensor is on fire")

    clock = ManualClock()
    to = endpoint(fail, clock=clock)
    answers = [ask(to) for _ in range(5)]
    assert {answer.status for answer in answers} == {500}
    assert b"on fire" not in answers[0].body
    assert len(answers[0].body.splitlines()) == 1
    assert caplog.text.count("RuntimeError: the sensor is on fire") == 1
    clock.advance(61)
    ask(to)
    assert caplog.text.count("RuntimeError: the sensor is on fire") == 2
    assert ask(to, "/healthz").status == 200


def test_a_page_that_cannot_be_rendered_spoils_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    wide = family("test_wide", "gauge", "a")
    good = FamilyBlock(wide, [(str(i),) for i in range(5000)], range(5000))
    bad = FamilyBlock(wide, [(str(i),) for i in range(5000)], [*range(4999), object()])  # type: ignore[list-item]
    gather = Fixed(good, FamilyBlock(HITS, [("a",), ("a",)], [1, 2]))
    to = endpoint(gather)
    first = ask(to)
    gather.scrape = Scrape([bad])
    assert ask(to).status == 500
    gather.scrape = Scrape([good])
    after = ask(to)
    assert after.body.count(b"\ntest_wide{") == 5000
    assert b'gpusight_series_dropped_total{reason="duplicate"} 0\n' in first.body
    assert b'gpusight_series_dropped_total{reason="duplicate"} 1\n' in after.body


def test_duplicates_are_dropped_and_counted() -> None:
    twice = Fixed(FamilyBlock(THINGS, [("a",), ("a",)], [1, 2]), FamilyBlock(THINGS, [("a",)], [3]))
    to = endpoint(twice)
    pages = [ask(to).body, ask(to, accept=PROMETHEUS_2_42).body, ask(to).body]
    assert [page.count(b"\ntest_things{") for page in pages] == [1, 1, 1]
    assert [page.count(b"# TYPE test_things") for page in pages] == [1, 1, 1]
    assert b'{reason="duplicate"} 4\n' in pages[2]


def test_own_families_join_those_of_the_gather() -> None:
    given = FamilyBlock(SCRAPES_REJECTED, [("elsewhere",)], [7])
    page = ask(endpoint(Fixed(given))).body.decode()
    assert page.count("# TYPE gpusight_scrapes_rejected_total") == 1
    assert 'reason="elsewhere"} 7' in page
    assert 'reason="auth"} 0' in page


def test_more_own_families_can_be_added() -> None:
    to = endpoint()

    def more() -> list[FamilyBlock]:
        return [FamilyBlock(RUNS, [()], [3])]

    to.expose(more)
    to.expose(more)
    page = ask(to).body
    assert page.count(b"\ntest_runs 3\n") == 1
    assert b"test_runs" not in ask(to, query="collect[]=x").body


def test_filtered_scrapes_leave_the_full_pages_memory_alone() -> None:
    to = endpoint(Fixed(things(3000)))
    ask(to)
    remembered = to._metrics["/metrics"].press._renderers[TEXT]._families[THINGS]
    stretches = list(remembered.stretches)
    ask(to, query="name[]=other")
    ask(to, query="collect[]=x")
    ask(to, accept=PROMETHEUS_2_42)
    assert to._metrics["/metrics"].press._renderers[TEXT]._families[THINGS] is remembered
    ask(to)
    assert all(a is b for a, b in zip(stretches, remembered.stretches, strict=True))


# --- several pages ---


def several(**options: object) -> Endpoint:
    pages = {f"/node/{name}/metrics": Fixed(things(number)) for number, name in enumerate("abc", 1)}
    return endpoint(pages, **options)


def test_each_path_has_its_own_page() -> None:
    to = several()
    pages = [ask(to, f"/node/{name}/metrics").body for name in "abc"]
    assert [page.count(b"\ntest_things{") for page in pages] == [1, 2, 3]


def test_who_asks_for_the_usual_page_is_told_where_the_others_are() -> None:
    answer = ask(several(), "/metrics")
    assert answer.status == 404
    assert b"/node/a/metrics, /node/b/metrics, /node/c/metrics;" in answer.body


def test_a_sentence_does_not_list_a_thousand_pages() -> None:
    to = endpoint({f"/node/{number}/metrics": Fixed(things(1)) for number in range(1000)})
    assert len(ask(to, "/metrics").body) < 500
    assert ask(to, "/").body.count(b"<li>") == 1002


def test_the_landing_page_lists_all_pages() -> None:
    body = ask(several(), "/").body
    assert all(f'<a href="/node/{name}/metrics">/node/{name}/metrics</a>'.encode() in body for name in "abc")


def test_pages_do_not_share_what_they_remember() -> None:
    to = several()
    first = [ask(to, f"/node/{name}/metrics").body for name in "abc"]
    again = [ask(to, f"/node/{name}/metrics").body for name in "abc"]
    assert first == again
    assert len(set(first)) == 3
