"""Results: the columns of the contract, and files that come back as they were."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import freepull as fp
from freepull.errors import InvalidInput, ResultError
from support.drive import assert_sentence, paper

COLUMNS: dict[Any, Any] = {
    "run": pl.Int64,
    "arm": pl.Int64,
    "correct": pl.Boolean,
    "decided": pl.Boolean,
    "certified": pl.Boolean,
    "decided_at": pl.Int64,
    "paid": pl.Int64,
    "offered": pl.Int64,
    "refused": pl.Int64,
    "banned": pl.Int64,
    "free_pulls": pl.Int64,
    "reward": pl.Float64,
    "spent": pl.Float64,
    "regret": pl.Float64,
}


def simulate(**more: Any) -> fp.Result:
    told: dict[str, Any] = {"principal": fp.Principal(paper(5.0, arms=3)), "horizon": 30, "runs": 4, "seed": 2}
    return fp.simulate(fp.instances.toy(), **(told | {"engine": "readable"} | more))


def test_columns_and_types_are_those_of_the_contract() -> None:
    assert dict(simulate().frame.schema) == COLUMNS


def test_a_row_an_agent_has_pulls_reward_bonus_and_regret() -> None:
    agents = simulate(keep="agents").agents
    assert agents is not None
    assert dict(agents.schema) == {
        "run": pl.Int64,
        "agent": pl.Int64,
        "pulls": pl.List(pl.Int64),
        "reward": pl.Float64,
        "bonus": pl.Float64,
        "regret": pl.Float64,
    }
    assert agents["run"].to_list() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert agents["agent"].to_list() == [0, 1] * 4


def test_how_far_verdicts_survive_is_a_column_where_it_is_kept() -> None:
    certified = fp.Principal(fp.rules.Certified(0.4, robust=0.01), observe=fp.observe.Steps(0), offers="each")
    told: dict[str, Any] = {"principal": certified, "horizon": 400, "keep": "survives", "runs": 6}
    found, same = simulate(**told).frame, simulate(**told, engine="compiled").frame
    assert dict(found.schema) == COLUMNS | {"survives": pl.Float64}
    assert_frame_equal(found, same, check_exact=True)
    assert found["survives"].is_null().to_list() == [not decided for decided in found["decided"]]
    assert found["survives"].min() >= 0.01  # type: ignore[operator]
    assert_frame_equal(found.drop("survives"), simulate(**told | {"keep": "runs"}).frame, check_exact=True)
    assert simulate(keep="survives").frame["survives"].null_count() == 4, "another rule"


def test_evidence_of_checks_is_kept_if_asked_for() -> None:
    told: dict[str, Any] = {"horizon": 60, "runs": 2, "engine": "readable"}
    found = simulate(**told, keep="checks").frame
    assert dict(found.schema) == COLUMNS | {"common_shock": pl.Float64, "drift": pl.Float64}
    assert found["drift"].min() >= 1.0  # type: ignore[operator]
    assert_frame_equal(found.drop("common_shock", "drift"), simulate(**told).frame, check_exact=True)
    with pytest.raises(fp.errors.InvalidInput, match="only the readable one runs checks"):
        simulate(keep="checks", engine="compiled")


def test_an_empty_trace_still_has_its_columns() -> None:
    trace = simulate(until="decided", trace=[30], principal=fp.Principal(paper(1e-6, arms=3))).trace
    assert trace is not None
    assert trace.schema == simulate(trace=[30]).trace.schema  # type: ignore[union-attr]


def test_reward_bonus_and_regret_by_hand() -> None:
    game = fp.Game([[0.9, 0.5, 0.1], [0.2, 0.4, 0.6]])
    principal = fp.Principal(paper(1000.0, arms=3), observe=fp.observe.Steps(3), bonus=2.5)
    told: dict[str, Any] = {"principal": principal, "agents": fp.agents.RoundRobin(), "engine": "readable"}
    result = fp.simulate(game, horizon=5, runs=1, keep="agents", **told)
    row = result.frame.row(0, named=True)
    assert result.agents is not None
    # three steps of their own; then agent 0 is paid for arm 0 and agent 1 picks arm 0; then arm 1 for both
    assert result.agents["pulls"].to_list() == [[2, 2, 1], [2, 2, 1]]
    assert result.paid.tolist() == [[1, 1, 0], [0, 0, 0]]
    assert (row["paid"], row["free_pulls"], row["spent"]) == (2, 8, 5.0)
    assert result.agents["bonus"].to_list() == [5.0, 0.0]
    # losses: agent 0: 0, .4, .8; agent 1: .4, .2, 0
    assert result.agents["regret"].to_list() == pytest.approx([2 * 0.4 + 0.8, 2 * 0.4 + 2 * 0.2])
    assert row["regret"] == pytest.approx(2.8)
    assert row["reward"] == sum(result.agents["reward"])


def test_paid_is_the_mean_over_runs_per_agent_and_arm_with_its_standard_error() -> None:
    lenient = fp.Principal(paper(5.0, arms=3), protocol=fp.protocols.NeverBan())
    moody: dict[str, Any] = {"principal": lenient, "answers": fp.answers.WithProbability(0.5)}
    together, alone = simulate(**moody), np.array([simulate(**moody, runs=[run]).paid for run in range(4)])
    assert together.paid.shape == (2, 3)
    assert together.paid == pytest.approx(alone.mean(axis=0))
    assert together.paid_error == pytest.approx(alone.std(axis=0, ddof=1) / 2)
    assert together.paid_error.max() > 0


def test_provenance_tells_where_a_result_came_from() -> None:
    told = simulate(runs=[1, 5]).provenance
    assert told["freepull"] == fp.__version__
    assert (told["seed"], told["engine"], told["finished"], told["interrupted"]) == (2, "readable", 2, False)
    assert told["parameters"]["horizon"] == 30
    assert told["parameters"]["runs"] == [1, 5]
    assert set(told) >= {"machine", "libraries", "seconds", "at"}


def test_a_saved_result_comes_back_as_it_was(tmp_path: Path) -> None:
    result = simulate(keep="agents", trace=10)
    loaded = fp.Result.load(result.save(tmp_path / "runs.parquet"))
    for name in ("frame", "agents", "trace"):
        assert_frame_equal(getattr(loaded, name), getattr(result, name), check_exact=True)
    assert (loaded.paid == result.paid).all()
    assert loaded.provenance == result.provenance
    assert_frame_equal(loaded.summary(), result.summary())


def test_what_was_not_kept_is_not_there_after_loading(tmp_path: Path) -> None:
    loaded = fp.Result.load(simulate().save(str(tmp_path / "runs.parquet")))
    assert loaded.agents is None
    assert loaded.trace is None


def test_saving_over_an_older_result_leaves_nothing_of_it(tmp_path: Path) -> None:
    simulate(keep="agents", trace=10, seed=1).save(tmp_path / "runs.parquet")
    simulate(seed=2).save(tmp_path / "runs.parquet")
    loaded = fp.Result.load(tmp_path / "runs.parquet")
    assert loaded.agents is None
    assert loaded.trace is None


def test_a_single_run_comes_back_too(tmp_path: Path) -> None:
    loaded = fp.Result.load(simulate(runs=1).save(tmp_path / "one.parquet"))
    assert loaded.frame.height == 1
    assert np.isnan(loaded.paid_error).all()


@pytest.mark.parametrize("kind", ["missing", "text", "empty", "folder", "foreign", "truncated", "agents"])
def test_a_foreign_file_is_refused_with_a_sentence(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file.parquet"
    if kind == "text":
        path.write_text("hello")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "folder":
        path.mkdir()
    elif kind == "foreign":
        pl.DataFrame({"a": [1]}).write_parquet(path)
    elif kind == "truncated":
        simulate().save(path)
        path.write_bytes(path.read_bytes()[:-100])
    elif kind == "agents":
        simulate(keep="agents").save(path)
        (tmp_path / "file.agents.parquet").write_text("broken")
    with pytest.raises(ResultError) as problem:
        fp.Result.load(path)
    assert "give a file written by Result.save" in assert_sentence(problem)


def test_a_name_of_another_format_is_refused_with_a_sentence(tmp_path: Path) -> None:
    for name in ("runs.csv", "runs.json", "runs.parquet.gz"):
        with pytest.raises(InvalidInput) as problem:
            simulate().save(tmp_path / name)
        assert "path must end in .parquet" in assert_sentence(problem)
    assert not list(tmp_path.iterdir())
    for name in ("runs", "runs.PARQUET"):
        assert fp.Result.load(simulate().save(tmp_path / name)).frame.height > 0


def test_a_path_that_cannot_be_written_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ResultError) as problem:
        simulate().save(tmp_path / "nowhere" / "runs.parquet")
    assert "cannot be written" in assert_sentence(problem)


def made_of(result: fp.Result) -> Any:
    """Return everything that a result holds and that does not depend on the clock."""
    told = {name: value for name, value in result.provenance.items() if name not in ("seconds", "at")}
    frames = [part.rows() for part in (result.frame, result.agents, result.trace) if part is not None]
    sums = result.paid_sum.tolist(), result.paid_squares.tolist()
    return frames, sums, result.paid.tolist(), result.paid_error.tolist(), told


def test_parts_put_together_are_the_whole() -> None:
    kept: dict[str, Any] = {"keep": "agents", "trace": 10}
    whole = simulate(runs=7, **kept)
    assert whole.paid_error.any()
    parts = [simulate(runs=[5, 2, 6], **kept), simulate(runs=2, **kept), simulate(runs=[4, 3], **kept)]
    together = fp.Result.concat(parts)
    assert made_of(together) == made_of(whole)
    assert together.provenance["seconds"] == pytest.approx(sum(part.provenance["seconds"] for part in parts))


def test_a_part_that_was_saved_can_be_put_together(tmp_path: Path) -> None:
    saved = fp.Result.load(simulate(runs=[0, 2]).save(tmp_path / "a.parquet"))
    assert made_of(fp.Result.concat([saved, simulate(runs=[1])])) == made_of(simulate(runs=3))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"seed": 3}, "seed is 2 in one and 3 in another"),
        ({"horizon": 31}, "horizon is 30 in one and 31 in another"),
        ({"principal": fp.Principal(fp.rules.Passive())}, "principal is"),
        ({"trace": 10}, "trace is None in one and 10 in another"),
        ({"keep": "agents"}, "different keep"),
        ({"runs": [9, 3]}, "run 3 is in 2 of them"),
    ],
)
def test_results_of_other_experiments_or_runs_are_refused(more: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        fp.Result.concat([simulate(), simulate(**{"runs": [4, 5]} | more)])
    assert_sentence(refused)
    assert why in str(refused.value)


@pytest.mark.parametrize("results", [[], [3]])
def test_what_is_no_list_of_results_is_refused(results: Any) -> None:
    with pytest.raises(InvalidInput, match="results must be a list of one or more Results"):
        fp.Result.concat(results)


def test_unfinished_runs_are_known_until_a_part_has_them() -> None:
    begun = simulate(runs=2)
    begun.provenance["parameters"]["runs"], begun.provenance["interrupted"] = 4, True
    assert fp.Result.concat([begun, simulate(runs=[2])]).interrupted
    assert not fp.Result.concat([begun, simulate(runs=[3, 2])]).interrupted


def test_sums_are_found_again_in_files_of_version_0_1(tmp_path: Path) -> None:
    with tarfile.open(Path(__file__).parents[1] / "golden" / "releases" / "0.1.tar.gz") as file:
        file.extractall(tmp_path, filter="data")
    shards = sorted((tmp_path / "study" / "shards").glob("*.parquet"))
    assert shards
    for path in shards:
        result, head = fp.Result.load(path), json.loads(pl.read_parquet_metadata(path)["freepull"])
        assert (result.paid.tolist(), result.paid_error.tolist()) == (head["paid"], head["paid_error"])
        assert result.paid_sum.sum() == result.frame["paid"].sum()
        assert "bonus" in pl.read_parquet_schema(path)  # as `spent` was called then
        assert result.frame["spent"].to_list() == result.frame["paid"].to_list()


def test_version_0_1_lost_no_bit_of_the_sums(tmp_path: Path) -> None:
    chance, run = np.random.default_rng(1), simulate(runs=1)
    for runs in (1, 2, 7, 300):
        counts = chance.integers(0, 5000, (runs, 2, 3))
        total, squares = counts.sum(axis=0), (counts**2).sum(axis=0)
        mean = total / runs
        spread = (squares - total * mean) / max(runs - 1, 1)
        error = np.sqrt(np.maximum(spread, 0.0) / runs) if runs > 1 else np.full((2, 3), np.nan)
        head = {"provenance": run.provenance, "paid": mean.tolist(), "paid_error": error.tolist()}
        path = tmp_path / f"{runs}.parquet"
        pl.concat([run.frame] * runs).write_parquet(path, metadata={"freepull": json.dumps(head)})
        result = fp.Result.load(path)
        assert (result.paid_sum.tolist(), result.paid_squares.tolist()) == (total.tolist(), squares.tolist())
        assert np.array_equal(result.paid, mean)
        assert np.array_equal(result.paid_error, error, equal_nan=True)
