"""The harness of the benchmarks: its statistics, its tables, and one quick run. Nothing here asserts a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.large_app import RULES, addresses, large_app
from benchmarks.rounds import Timings, clocked, timings
from benchmarks.routes import forget, walk
from benchmarks.tables import Table, Target, shown
from flask_sitemapx.sources.view_code import is_demand


def test_a_ratio_is_the_median_of_the_ratios_within_each_round() -> None:
    # The second round fell into a busy moment: both took ten times as long, and the ratio does not see it.
    measured = Timings({"slow": [6.0, 60.0, 9.0], "fast": [2.0, 20.0, 3.0]})
    assert measured.ratio("slow", "fast") == 3.0
    assert measured.median("slow") == 9.0


def test_one_odd_round_does_not_move_a_ratio() -> None:
    assert Timings({"one": [2.0, 2.0, 90.0], "other": [1.0, 1.0, 1.0]}).ratio("one", "other") == 2.0


def test_contenders_take_turns_after_a_warm_up_that_is_not_counted() -> None:
    turns: list[str] = []

    def goes(name: str) -> float:
        turns.append(name)
        return float(len(turns))

    measured = timings({"a": lambda: goes("a"), "b": lambda: goes("b")}, rounds=2)
    assert turns == ["a", "b", "a", "b", "a", "b"]
    assert measured.seconds == {"a": [3.0, 5.0], "b": [4.0, 6.0]}


def test_a_measurement_is_seconds_a_unit_from_after_the_preparation() -> None:
    now = iter([10.0, 14.0])
    prepared: list[str] = []
    measure = clocked(lambda: 8, units=8, clock=lambda: next(now), before=lambda: prepared.append("yes"))
    assert measure() == 0.5
    assert prepared == ["yes"]


def test_a_contender_that_did_not_do_all_its_work_is_refused() -> None:
    with pytest.raises(RuntimeError, match="7 of 8 units"):
        clocked(lambda: 7, units=8)()


@pytest.mark.parametrize(
    ("target", "is_met"),
    [
        (Target("peer / ours", 10.0, at_least=10.0), True),
        (Target("peer / ours", 9.9, at_least=10.0), False),
        (Target("ours / hello", 1.1, at_most=1.1), True),
        (Target("ours / hello", 1.2, at_most=1.1), False),
    ],
)
def test_a_target_is_met_at_its_bound_and_missed_beyond(target: Target, is_met: bool) -> None:
    assert target.is_met is is_met
    assert str(target).startswith("met" if is_met else "MISSED")


def test_a_table_is_markdown_with_its_targets_and_what_was_skipped() -> None:
    table = Table(
        "build",
        "CPU of a build.",
        ["contender", "us/URL"],
        rows=[["ours", 4.5678], ["a peer", None]],
        targets=[Target("peer / ours", 12.0, at_least=10.0)],
        skipped=["another peer (not installed)"],
    )
    assert str(table).splitlines() == [
        "## build",
        "",
        "CPU of a build.",
        "",
        "| contender | us/URL |",
        "|-----------|-------:|",
        "| ours      |   4.57 |",
        "| a peer    |      - |",
        "",
        "met     peer / ours: 12 (target >= 10)",
        "",
        "skipped: another peer (not installed)",
    ]
    assert table.as_dict()["rows"][0] == {"contender": "ours", "us/URL": 4.5678}


def test_figures_are_shown_with_three_digits() -> None:
    assert [shown(figure) for figure in (0.012345, 1.2345, 99.96, 123456.7)] == ["0.0123", "1.23", "100", "123,457"]


def test_a_quick_run_prints_its_tables_and_writes_them_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "result.json"
    assert main(["urls", "--quick", "--json", str(target)]) == 0
    printed = capsys.readouterr().out
    written = json.loads(target.read_text())
    assert [table["title"] for table in written["tables"]] == ["urls, path only", "urls, with query"]
    assert all(f"## {table['title']}" in printed for table in written["tables"])
    assert "Python" in written["environment"]


def test_the_large_application_is_mixed_as_it_says() -> None:
    app = large_app()
    paths = [rule.rule for rule in app.url_map.iter_rules()]
    assert len(paths) == len(set(paths)) == RULES
    assert 0.6 < sum("<" in path for path in paths) / RULES < 0.7
    reasons = [answer.reason for answer in walk(app).explained()]
    for said in ("template", "guarded", "word", "JSON", "redirects", "a file", "GET", "it needs"):
        assert any(said in reason for reason in reasons), said
    assert len({view.__code__ for view in app.view_functions.values()}) > RULES / 2


def test_the_rules_that_url_for_is_called_for_are_from_all_over_the_map() -> None:
    app = large_app()
    calls = list(addresses(app, 200))
    assert len({endpoint for endpoint, _ in calls}) == 200
    assert {endpoint.partition(".")[0] for endpoint, _ in calls} >= {"site", "auth", "desk", "admin", "api"}


def test_a_walk_starts_with_empty_caches() -> None:
    is_demand("require_login")
    forget()
    assert is_demand.cache_info().currsize == 0


def test_an_unknown_benchmark_is_refused_with_the_names_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "no benchmark is called 'speed'; there are build, serve" in capsys.readouterr().err
