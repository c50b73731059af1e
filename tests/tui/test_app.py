"""What keys and clicks do, and what the screen says when the source does not answer."""

import threading
from typing import Any

import pytest

from gpusight.tui import table
from gpusight.tui.fleet import Result, results_section
from gpusight.tui.layout import line_cells
from gpusight.tui.snapshot import Snapshot, SourceError
from tests.tui.pages import SHARED, simulated
from tests.tui.screens import Screen, Told, node_snapshot, show

THREE = """\
gpusight_gpu_info{uuid="GPU-a",gpu="0",name="A"} 1
gpusight_gpu_info{uuid="GPU-b",gpu="1",name="B"} 1
gpusight_gpu_info{uuid="GPU-c",gpu="2",name="C"} 1
gpusight_gpu_utilization_ratio{uuid="GPU-a",gpu="0"} 0.2
gpusight_gpu_utilization_ratio{uuid="GPU-b",gpu="1"} 0.9
"""


def gpus(count: int) -> Snapshot:
    """A fleet of so many GPUs, eight to a machine."""
    fixed: dict[str, Any] = {
        "cluster": "c",
        "container": "main",
        "model_name": "T4",
        "mig_instance": "",
        "note": "",
        "status": "low",
    }
    numbers: dict[str, Any] = dict.fromkeys(("gpu_util", "mem_used_mb", "mem_total_mb", "power_usage", "sm_clock"), 1.0)
    results = [
        Result(
            id=f"{number}",
            gpu_id=f"GPU-{number}",
            hostname=f"node-{number // 8:05}",
            namespace="ml",
            pod=f"pod-{number}",
            subject=f"s{number}",
            state="productive",
            score=float(number % 97),
            **numbers,
            **fixed,
        )
        for number in range(count)
    ]
    return Snapshot(
        kind="fleet",
        source="http://analyzer:8080",
        at=0.0,
        received=0.0,
        age=1.0,
        old_after=60.0,
        simulated=False,
        title="",
        summary=(),
        sections=(results_section(results, {}),),
    )


def test_keys_sort_by_the_next_column_and_the_other_way_round_with_the_unknown_last() -> None:
    async def scenario(screen: Screen) -> None:
        assert screen.names == ["0 A", "1 B", "2 C"]
        await screen.press("s", "s", "s")
        assert "sort UTIL v" in screen.text
        assert screen.names == ["1 B", "0 A", "2 C"]
        await screen.press("o")
        assert "sort UTIL ^" in screen.text
        assert screen.names == ["0 A", "1 B", "2 C"]
        await screen.press("S")
        assert "sort STATUS ^" in screen.text

    show(Told(node_snapshot(THREE)), scenario)


def test_a_click_on_a_title_sorts_and_a_second_one_turns_the_order() -> None:
    async def scenario(screen: Screen) -> None:
        header = next(line for line in screen.text.splitlines() if "UTIL" in line)
        at = (header.index("UTIL"), 0)
        await screen.pilot.click(table.RowTable, offset=at)
        await screen.pilot.pause()
        assert screen.names == ["1 B", "0 A", "2 C"]
        await screen.pilot.click(table.RowTable, offset=at)
        await screen.pilot.pause()
        assert screen.names == ["0 A", "1 B", "2 C"]

    show(Told(node_snapshot(THREE)), scenario)


def test_a_filter_works_while_it_is_typed_and_is_cleared() -> None:
    async def scenario(screen: Screen) -> None:
        await screen.press("slash", *"5 ASR-d")
        assert screen.names == ["5 NVIDIA GeForce RTX 4090", "speech/asr-dev-0/dev", "pid 21360"]
        assert "filter 5 ASR-d: 3 of 38" in screen.text
        await screen.press("x")
        assert screen.names == []
        assert "nothing matches the filter" in screen.text
        await screen.press("backspace", "enter", "q")  # typed no more: q quits
        assert screen.app._exit

    show(Told(node_snapshot(simulated())), scenario)


def test_escape_clears_the_filter() -> None:
    async def scenario(screen: Screen) -> None:
        await screen.press("slash", *"gpu-b", "enter")
        assert screen.names == ["1 B"]
        await screen.press("escape")
        assert screen.names == ["0 A", "1 B", "2 C"]

    show(Told(node_snapshot(THREE)), scenario)


def test_the_tree_folds_and_becomes_a_flat_list() -> None:
    async def scenario(screen: Screen) -> None:
        assert len(screen.names) == 38
        await screen.press("enter")
        assert screen.names[:2] == ["0 Tesla V100S-PCIE-32GB", "1 Tesla T4"]
        await screen.press("enter", "t")
        assert len(screen.names) == 38
        assert screen.rows[1].startswith("0 serving/reranker")

    show(Told(node_snapshot(simulated())), scenario)


def test_the_cursor_stays_on_its_row_when_the_order_changes() -> None:
    async def scenario(screen: Screen) -> None:
        await screen.press("down")
        await screen.press("s", "s", "s")
        marked = [line for line in screen.text.splitlines() if line.startswith(">")]
        assert len(marked) == 1
        assert "1 B" in marked[0]

    show(Told(node_snapshot(THREE)), scenario)


def test_each_view_keeps_its_own_sorting() -> None:
    async def scenario(screen: Screen) -> None:
        await screen.press("s")
        assert "sort NAME ^" in screen.text
        await screen.press("tab")
        assert "[2 Lock queue]" in screen.text
        assert "sort" not in screen.text.split("q quit")[0]
        await screen.press("1")
        assert "sort NAME ^" in screen.text

    show(Told(node_snapshot(SHARED)), scenario)


def test_without_the_share_scheduler_there_is_no_lock_queue() -> None:
    async def scenario(screen: Screen) -> None:
        await screen.press("2")
        assert "[1 GPUs]" in screen.text
        assert "Lock queue" not in screen.text

    show(Told(node_snapshot(THREE)), scenario)


def test_what_is_paused_asks_only_on_request() -> None:
    async def scenario(screen: Screen) -> None:
        await screen.press("p")
        assert "PAUSED" in screen.text
        await screen.ask_again()
        assert screen.source.asked == 2
        await screen.press("p")
        await screen.until(lambda: screen.source.asked == 3)
        assert "PAUSED" not in screen.text

    show(Told(node_snapshot(THREE)), scenario)


def test_a_source_that_never_answered_is_named_with_the_reason_until_it_does() -> None:
    async def scenario(screen: Screen) -> None:
        assert "UNREACHABLE for 0s: http://node:9394 refuses" in screen.text
        screen.clock.advance(5)
        await screen.ask_again()
        assert "UNREACHABLE for 5s: it is slow" in screen.text
        await screen.ask_again()
        assert "UNREACHABLE" not in screen.text
        assert screen.names == ["0 A", "1 B", "2 C"]

    refused, slow = SourceError("http://node:9394 refuses the connection"), SourceError("it is slow")
    show(Told(refused, slow, node_snapshot(THREE)), scenario)


def test_a_defect_in_reading_is_told_and_not_the_end() -> None:
    class Broken(Told):
        def fetch(self) -> Snapshot:
            raise KeyError("oops")

    async def scenario(screen: Screen) -> None:
        assert "the answer cannot be understood: KeyError: 'oops'" in screen.text

    show(Broken(SourceError("")), scenario)


def test_a_source_that_hangs_holds_up_neither_keys_nor_the_end() -> None:
    class Hanging(Told):
        """Answers once, then not before it is let go."""

        def __init__(self, *outcomes: Snapshot) -> None:
            super().__init__(*outcomes)
            self.go = threading.Event()

        def fetch(self) -> Snapshot:
            if self.asked:
                self.asked += 1
                self.go.wait(30)
            return super().fetch()

    source = Hanging(node_snapshot(THREE))

    async def scenario(screen: Screen) -> None:
        await screen.press("r")
        await screen.until(lambda: source.asked == 2)
        await screen.press("s")
        assert "sort NAME ^" in screen.text

    show(source, scenario)
    assert not source.go.is_set()
    source.go.set()


HOSTILE = "[bold red]x[/]\\n\x1b[31m\u202e[@click=app.quit]y[/]"


def test_hostile_names_are_shown_as_they_are_and_steer_nothing() -> None:
    async def scenario(screen: Screen) -> None:
        await screen.press("v")
        shown = screen.text
        assert r"[bold red]x[/]\n\x1b[31m\u202e[@click=app.quit]y[/]" in shown
        assert not any(char in shown for char in "\x1b\u202e\x07")

    page = THREE + f'gpusight_holder_info{{namespace="{HOSTILE}",pod="p",uuid="GPU-a",how="{HOSTILE}"}} 1\n'
    show(Told(node_snapshot(page)), scenario, size=(200, 24))


def test_hostile_titles_and_reasons_do_not_break_the_head() -> None:
    async def scenario(screen: Screen) -> None:
        assert r"n[/]\x1b[2J" in screen.text
        await screen.ask_again()
        assert r"[red]\x1b]0;title\x07" in screen.text
        assert not any(char in screen.text for char in "\x1b\x07")

    page = THREE.replace('name="A"', 'name="A",node="n[/]\x1b[2J"')
    show(Told(node_snapshot(page), SourceError("[red]\x1b]0;title\x07")), scenario, size=(120, 24))


@pytest.mark.parametrize("size", [(20, 6), (1, 1), (300, 60)])
def test_any_size_of_terminal_will_do(size: tuple[int, int]) -> None:
    async def scenario(screen: Screen) -> None:
        await screen.press("down", "end", "pageup", "v", "t", "question_mark")
        assert all(len(line) <= size[0] for line in screen.text.splitlines())

    show(Told(node_snapshot(simulated())), scenario, size=size)


def test_of_ten_thousand_rows_only_those_in_sight_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(line: Any, *args: Any, **options: Any) -> Any:
        made.append(line.row.key)
        return line_cells(line, *args, **options)

    monkeypatch.setattr(table, "line_cells", counted)

    async def scenario(screen: Screen) -> None:
        assert len(screen.names) == 11_250
        made.clear()
        await screen.press("end")
        assert "ml/pod-9999/main" in screen.text
        await screen.press("s", "s", "s", "o")
        assert len(set(made)) <= 7 * screen.app.size.height

    show(Told(gpus(10_000)), scenario)


def test_a_round_that_is_known_already_makes_no_rows_anew() -> None:
    same = gpus(100)

    async def scenario(screen: Screen) -> None:
        before = screen.app._table.lines
        await screen.ask_again()
        assert screen.app._table.lines is before

    show(Told(same), scenario)
