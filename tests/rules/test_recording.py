"""The recording rules, as Prometheus's own tools see them."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from gpusight.rules.recording import recording_rules, render_recording
from gpusight.store.promql import ConditionError

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="the `promtool` program is not installed")

CONDITION = '{pod!=""}'


def promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.parametrize("condition", ["", CONDITION, '{namespace=~"a|b", modelName!~"T4.*"}', "pod!='x\\n'"])
@pytest.mark.parametrize(("step", "window"), [(30.0, 600.0), (1.0, 900.0), (0.5, 60.0), (60.0, 7200.0)])
def test_rules_are_valid(tmp_path: Path, condition: str, step: float, window: float) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(render_recording(step, window, condition, cluster_label="site", active_above=0.01))
    promtool("check", "rules", str(rules))


def test_the_name_tells_the_question() -> None:
    def names(**changed: object) -> set[str]:
        given = {"step": 30.0, "window": 600.0, "condition": CONDITION, **changed}
        return {rule.record for rule in recording_rules(**given)}  # type: ignore[arg-type]

    usual = names()
    assert any(name.startswith("gpusight:digest_1:600s_30s_0_005_") for name in usual)
    for changed in (
        {"step": 15.0},
        {"window": 900.0},
        {"condition": ""},
        {"active_above": 0.01},
        {"cluster_label": "site"},
    ):
        assert not usual & names(**changed), changed
    assert names(condition='pod!=""') == usual, "braces make no difference"


def test_what_cannot_be_recorded_is_refused() -> None:
    with pytest.raises(ConditionError):
        render_recording(30, 600, 'pod!=""} or up{a="b"')
    with pytest.raises(ValueError, match="too many steps"):
        render_recording(1, 3600, CONDITION)


@needs_promtool
def test_what_is_recorded(tmp_path: Path) -> None:
    """Fields are codes: 0 for nothing, else one more than the value in thousandths, looks or steps ago."""
    rules = recording_rules(30, 600, CONDITION)
    (tmp_path / "rules.yml").write_text(render_recording(30, 600, CONDITION, interval=30))
    labels = 'UUID="GPU-1",namespace="team",pod="{pod}",container="main",Hostname="n",job="j",instance="i"'

    def series(pod: str, values: str) -> dict[str, str]:
        return {"series": f"DCGM_FI_DEV_GPU_UTIL{{{labels.replace('{pod}', pod)}}}", "values": values}

    def recorded(pod: str, value: int) -> dict[str, object]:
        return {
            "labels": f'{rules[0].record}{{k="GPU-1||||||team|{pod}|main",p="n|||j|i"}}',
            "value": value,
        }

    idle = 1 | 1 << 10 | 21 << 20
    busy = 951 | 951 << 10 | 21 << 20 | 21 << 30 | 1 << 40
    burst = 26 | 501 << 10 | 21 << 20 | 2 << 30 | 6 << 40
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "30s",
        "tests": [
            {
                "interval": "30s",
                "input_series": [
                    series("idle", "0x40"),
                    series("busy", "95x40"),
                    series("burst", "0x34 50 0x10"),
                    series("nan", "NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN"),
                ],
                "promql_expr_test": [
                    {
                        "expr": rules[0].record,
                        "eval_time": "20m",
                        "exp_samples": [
                            recorded("burst", burst),
                            recorded("busy", busy),
                            recorded("idle", idle),
                            recorded("nan", 10 << 20),
                        ],
                    },
                    {
                        "expr": rules[1].record,
                        "eval_time": "20m",
                        "exp_samples": [{"labels": rules[1].record, "value": 1200}],
                    },
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))
    promtool("test", "rules", str(tmp_path / "test.yml"))
