"""Scraping real sockets into a real store: what is kept, what ends, what one target can do to another."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpusight.exposition.parser import Limits
from gpusight.model.series import Ask, Span, StoreError
from gpusight.model.time import ManualClock, SystemClock
from gpusight.store.embedded import Batch, EmbeddedStore
from gpusight.store.embedded_series import SeriesBook, SeriesRef, Target
from gpusight.store.scrape import Scraper
from gpusight.store.scrape_target import ScrapeTarget, TargetState, target
from tests.store.embedding import START, embedded, key
from tests.store.endpoints import Endpoint, endpoint

PAGE = """\
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",Hostname="node-1"} 50
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",Hostname="node-1"} 0
go_goroutines 12
"""


class Memory:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.failing = ""
        self._book = SeriesBook()
        self._lock = threading.Lock()

    def ref(self, target: Target, family: str, labels: Mapping[str, str]) -> SeriesRef:
        with self._lock:
            return self._book.ref(target, family, labels)

    def append(self, batches: Sequence[Batch]) -> Mapping[Target, str]:
        if self.failing:
            raise StoreError(self.failing)
        self.batches += batches
        return {}

    def of(self, served: Endpoint) -> list[Batch]:
        return [batch for batch in self.batches if batch.target.instance == served.address]


@contextmanager
def scraping(
    *targets: ScrapeTarget, sink: EmbeddedStore | Memory | None = None, clock: ManualClock | None = None, **more: object
) -> Iterator[Scraper]:
    given = Memory() if sink is None else sink
    scraper = Scraper(targets, clock or ManualClock(START), 15.0, given, **more)  # type: ignore[arg-type]
    try:
        yield scraper
    finally:
        scraper.close()


def state(scraper: Scraper) -> TargetState:
    (only,) = scraper.targets
    return only


def test_a_page_becomes_windows(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with endpoint(PAGE) as served, embedded(tmp_path, clock) as store:
        with scraping(target(served.address, job="dcgm", timeout=5), sink=store, clock=clock) as scraper:
            for _ in range(3):
                scraper.scrape_once()
                clock.advance(30)
            found = state(scraper)
        reading = store.read([Ask("utilization", ("count", "last", "last_seen"))], Span(clock.now() - 30, 90, 30))
    assert (found.up, found.error, found.samples, dict(found.faults)) == (True, "", 2, {})
    assert found.name == Target("dcgm", served.address)
    assert found.url == f"http://{served.address}/metrics"
    assert found.scraped_at == START + 60
    columns = reading.windows[0].columns
    assert columns["count"] == {key("a"): 3, key("b"): 3}
    assert columns["last"] == {key("a"): 0.5, key("b"): 0.0}


def test_labels_of_the_page_win_and_missing_ones_are_added() -> None:
    text = 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a",job="mine",cluster="east"} 1\nDCGM_FI_DEV_GPU_UTIL{UUID="GPU-b"} 1\n'
    sink = Memory()
    with endpoint(text) as served, scraping(
        target(served.address, job="dcgm", labels={"cluster": "west", "rack": "7"}), sink=sink
    ) as scraper:  # fmt: skip
        scraper.scrape_once()
        first, second = (ref.labels for ref in sink.batches[0].series)
    assert first == f'{{"UUID":"GPU-a","cluster":"east","instance":"{served.address}","job":"mine","rack":"7"}}'
    assert second == f'{{"UUID":"GPU-b","cluster":"west","instance":"{served.address}","job":"dcgm","rack":"7"}}'


def test_only_known_families_and_those_asked_for_are_kept() -> None:
    text = (
        PAGE
        + 'kube_pod_owner{pod="p"} 1\nkube_pod_labels{pod="p"} 1\ngpu_ops_total 1\ngpu_temp 2\nexact 1\nexactly 1\n'
    )
    sink = Memory()
    with endpoint(text) as served, scraping(target(served.address), sink=sink, keep=["gpu_*", "exact"]) as scraper:
        scraper.scrape_once()
    kept = [ref.family for ref in sink.batches[0].series]
    assert kept == ["DCGM_FI_DEV_GPU_UTIL"] * 2 + ["kube_pod_owner", "gpu_ops_total", "gpu_temp", "exact"]


def html(served: Endpoint) -> None:
    served.text = "<html>\n<body>It works!</body>\n</html>\n"


def redirect(served: Endpoint) -> None:
    served.answer = lambda handler: served.send(handler, b"", 302, Location=f"http://{served.address}/elsewhere")


def server_error(served: Endpoint) -> None:
    served.answer = lambda handler: served.send(handler, b"boom\n", 500)


def cut_short(served: Endpoint) -> None:
    served.answer = lambda handler: served.send(handler, PAGE.encode(), Content_Length="100000")


def stalled(served: Endpoint) -> None:
    served.answer = served.stall


def trickling(served: Endpoint) -> None:
    served.answer = served.trickle


def flooding(served: Endpoint) -> None:
    served.answer = served.flood


def false_gzip(served: Endpoint) -> None:
    served.answer = lambda handler: served.send(handler, PAGE.encode(), Content_Encoding="gzip")


def too_many_lines(served: Endpoint) -> None:
    served.text = PAGE * 100


FAULTS = (html, redirect, server_error, cut_short, stalled, trickling, flooding, false_gzip, too_many_lines)


@pytest.mark.parametrize("go_wrong", FAULTS, ids=lambda fault: fault.__name__)
def test_a_failed_scrape_is_a_sentence_and_ends_the_series(tmp_path: Path, go_wrong: object) -> None:
    clock = ManualClock(START)
    asks = [Ask("utilization", ("last_seen",))]
    with endpoint(PAGE) as served, embedded(tmp_path, clock) as store:
        options = {"timeout": 0.5, "max_bytes": 1 << 20}
        one = target(served.address, **options)
        with scraping(one, sink=store, clock=clock, limits=Limits(lines=300)) as scraper:
            scraper.scrape_once()
            assert store.read(asks, Span(clock.now(), 60, 30)).windows
            go_wrong(served)  # type: ignore[operator]
            clock.advance(15)
            scraper.scrape_once()
            failed = state(scraper)
            gone = store.read(asks, Span(clock.now(), 60, 30))
            served.text, served.answer = PAGE, served.send_text
            clock.advance(15)
            scraper.scrape_once()
            again = state(scraper)
        assert (failed.up, failed.samples) == (False, 0)
        assert served.address in failed.error
        assert "\n" not in failed.error
        assert gone.windows == []
        assert (again.up, again.error, again.samples) == (True, "", 2)


def test_a_redirect_is_not_followed() -> None:
    with endpoint(PAGE) as served, scraping(target(served.address, timeout=2)) as scraper:
        redirect(served)
        scraper.scrape_once()
        assert [path for path, _ in served.requests] == ["/metrics"]


def test_a_closed_port_is_a_failure() -> None:
    with endpoint() as served:
        address = served.address
    with scraping(target(address, timeout=2)) as scraper:
        scraper.scrape_once()
        assert "refuses the connection" in state(scraper).error


def test_gzip_and_openmetrics_are_read() -> None:
    sink = Memory()
    text = 'gpusight_gpu_energy_joules_total{uuid="GPU-a"} 7.5 # {t="x"} 1\n# EOF\n'
    with endpoint(text) as served, scraping(target(served.address), sink=sink) as scraper:
        served.answer = served.send_gzip
        scraper.scrape_once()
    assert [(ref.family, value) for ref, value in zip(sink.batches[0].series, sink.batches[0].values, strict=True)] == [
        ("gpusight_gpu_energy_joules_total", 7.5)
    ]


def test_path_query_and_credentials_reach_the_target(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with endpoint(PAGE) as served:
        url = f"http://user:pa%20ss@{served.address}/node/1/metrics?name[]=a&name[]=b"
        with scraping(target(url)) as scraper:
            scraper.scrape_once()
            assert "pa" not in repr(scraper.targets)
        with scraping(target(served.address, bearer_token_file=token)) as scraper:
            scraper.scrape_once()
        (path, headers), (plain_path, more_headers) = served.requests
    assert path == "/node/1/metrics?name[]=a&name[]=b"
    assert headers["Authorization"] == "Basic dXNlcjpwYSBzcw=="
    assert headers["Accept"].startswith("text/plain;version=0.0.4")
    assert plain_path == "/metrics"
    assert more_headers["Authorization"] == "Bearer s3cret"


def test_own_timestamps_count_only_near_now() -> None:
    sink = Memory()
    rows = ((0, "now"), (-200, "recent"), (-301, "old"), (900, "future"))
    text = "".join(f'DCGM_FI_DEV_GPU_UTIL{{UUID="{name}"}} 1 {int((START + off) * 1000)}\n' for off, name in rows)
    with endpoint(text) as served, scraping(target(served.address), sink=sink) as scraper:
        scraper.scrape_once()
        assert dict(state(scraper).faults) == {"timestamp": 2}
    assert [ref.labels.split('"')[3] for ref in sink.batches[0].series] == ["now", "recent"]


def test_broken_lines_cost_themselves_and_are_counted() -> None:
    with endpoint(PAGE + "DCGM_FI_DEV_FB_USED{UUID= 5\n") as served, scraping(target(served.address)) as scraper:
        scraper.scrape_once()
        found = state(scraper)
    assert (found.up, found.samples, dict(found.faults)) == (True, 2, {"syntax": 1})


def test_simulated_pages_are_marked_and_refused_by_a_real_store(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with (
        endpoint(PAGE) as real,
        endpoint("gpusight_simulated 1\n" + PAGE) as made_up,
        embedded(tmp_path, clock) as store,
    ):
        with scraping(target(real.address), sink=store, clock=clock) as scraper:
            scraper.scrape_once()
        with scraping(target(real.address), target(made_up.address), sink=store, clock=clock) as scraper:
            scraper.scrape_once()
            states = {each.name.instance: each for each in scraper.targets}
    assert states[real.address].up
    assert not states[made_up.address].up
    assert "takes no simulated ones" in states[made_up.address].error


def test_targets_that_hang_never_keep_the_others_waiting() -> None:
    """As many hang as there are threads: the first round may suffer, the later ones must not."""
    sink = Memory()
    hanging = 4
    with endpoint() as bad, endpoint(PAGE) as good:
        bad.answer = bad.stall
        targets = [target(bad.address, timeout=5, instance=f"bad-{i}") for i in range(hanging)]
        scraper = Scraper(
            [*targets, target(good.address, timeout=5)], SystemClock(), 0.05, sink, workers=hanging + 1
        )  # fmt: skip
        for each in list(scraper._targets.values())[:hanging]:
            each.refuse("it hung before")
        scraper.start()
        try:
            deadline = time.monotonic() + 20
            while len(sink.of(good)) < 10:
                assert time.monotonic() < deadline, "a good target waits for bad ones"
                time.sleep(0.01)
            assert len(sink.batches) == len(sink.of(good)), "the bad ones still hang"
        finally:
            bad.released.set()
            scraper.close()
    moments = [batch.moment for batch in sink.of(good)]
    assert moments == sorted(moments)


def test_a_store_that_fails_is_said_and_got_over() -> None:
    sink = Memory()
    with endpoint(PAGE) as served, scraping(target(served.address), sink=sink) as scraper:
        sink.failing = "the disk is full"
        scraper.scrape_once()
        assert scraper.store_error == "the disk is full"
        sink.failing = ""
        scraper.scrape_once()
        assert scraper.store_error == ""
        assert len(sink.batches) == 1


def test_two_targets_of_one_name_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="same job and instance"):
        Scraper([target("a:1"), target("http://a:1/other")], ManualClock(START), 15, Memory())


@pytest.mark.parametrize(
    ("written", "url", "instance"),
    [
        ("node-1:9400", "http://node-1:9400/metrics", "node-1:9400"),
        ("https://node-1", "https://node-1/metrics", "node-1:443"),
        ("http://[::1]:9400/", "http://[::1]:9400/metrics", "[::1]:9400"),
        ("http://node-1/custom?a=b", "http://node-1/custom?a=b", "node-1:80"),
    ],
)
def test_targets_as_users_write_them(written: str, url: str, instance: str) -> None:
    made = target(written)
    assert (made.http.url, made.name.instance) == (url, instance)


def test_a_target_that_is_no_address_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="is not the address of an HTTP server"):
        target("ftp://node-1")
