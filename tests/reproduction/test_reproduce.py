"""`freepull reproduce`: all parts with few runs, the files they leave, and the sentences about them."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import freepull as fp
from freepull import planning, reproduction, studies
from freepull.errors import InvalidInput
from freepull.reproduction import FIGURES, Reproduction, Request, reproduce, theory
from freepull.reproduction.section import gather
from freepull.theory import cost_of, natural_pulls

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    """All parts but that of defences, which searches for long and says nothing with few runs."""
    others = [name for name in FIGURES if name != "defences"]
    return reproduce(tmp_path_factory.mktemp("reproduction"), runs=2, figures=others, progress=False)


@pytest.fixture(scope="module")
def defences(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    return reproduce(tmp_path_factory.mktemp("defences"), runs=20, figures=["defences"], progress=False)


def test_every_part_leaves_a_picture_and_its_numbers(whole: Reproduction, defences: Reproduction) -> None:
    assert sorted(section.name for section in whole.sections + defences.sections) == sorted(FIGURES)
    assert [section.name for section in whole.sections] == [name for name in FIGURES if name != "defences"]
    for report in (whole, defences):
        figures = report.report.parent / "figures"
        for section in report.sections:
            for ending in ("png", "svg", "pdf"):
                assert (figures / f"{section.name}.{ending}").stat().st_size > 5_000
            assert pl.read_parquet(figures / f"{section.name}.parquet").height > 0


def test_a_defence_leaves_less_than_a_fifth_at_the_same_bill(defences: Reproduction) -> None:
    rows = defences.sections[0].rows
    none, natural = (rows.filter(defence=name).row(0, named=True) for name in list(theory.DEFENCES)[:3:2])
    assert none["added"] > 175
    assert natural["added"] + 3 * natural["added_error"] < none["added"] / 5
    assert natural["bill"] <= 1.1 * none["bill"]


@pytest.mark.parametrize("which", ["whole", "defences"])
def test_the_report_needs_nothing_else(which: str, request: pytest.FixtureRequest) -> None:
    report: Reproduction = request.getfixturevalue(which)
    page = report.report.read_text(encoding="utf-8")
    assert re.findall(r'(?:src|href)="(?!data:|#)', page) == []
    assert "<script" not in page
    for section in report.sections:
        assert f'id="{section.name}"' in page
        for finding in section.findings:
            assert finding.truth
            assert finding.measured
            for told in (finding.truth, *finding.measured.values()):
                assert "nan" not in told.split(), told


def test_all_three_settings_are_told(whole: Reproduction) -> None:
    for section in whole.sections[:5]:
        told = " ".join(name for finding in section.findings for name in finding.measured)
        assert all(setting in told for setting in reproduction.SETTINGS), section.name


def test_nothing_is_decided_as_printed(whole: Reproduction) -> None:
    accuracy = whole.sections[0].findings[0]
    assert "no run is decided within T" in accuracy.truth
    assert "decided in 0 %, C(T) = 50,000" in accuracy.measured["paper"]
    assert whole.sections[3].findings[0].truth.startswith("As printed, nothing diminishes: no run is decided")


def test_withholding_pays_and_refusing_does_not_under_take_or_ban(tmp_path: Path) -> None:
    found = reproduce(tmp_path, runs=30, figures=["lemma1"], settings=["authors"], progress=False)
    rows = found.sections[0].rows.filter(protocol="Take-or-Ban")
    gain = {row["conduct"]: (row["gain_low"], row["gain_high"]) for row in rows.iter_rows(named=True)}
    assert gain["follow"] == (0.0, 0.0)
    assert gain["refuse"][1] < 0
    assert gain["hold out for 1,000 offers"][1] < 0
    assert gain["withhold natural pulls"][0] > 0
    assert "No kind of refusing earns more than following. Withholding pays: +" in found.sections[0].findings[0].truth


def test_what_withholding_gains_is_split_and_has_its_control(tmp_path: Path) -> None:
    found = reproduce(tmp_path, runs=10, figures=["lemma1"], settings=["certified"], progress=False).sections[0]
    rows = {row["conduct"]: row for row in found.rows.filter(protocol="Take-or-Ban").iter_rows(named=True)}
    broke = fp.Principal(fp.rules.Certified(0.01), budget=0)
    alone = []
    for alpha in (0.2, 2.0):
        agents = [fp.agents.AlphaUCB(alpha), fp.agents.AlphaUCB(2.0)]
        played = fp.simulate(fp.Game(theory.MEANS), principal=broke, agents=agents, horizon=theory.LEMMA_1_HORIZON,
                             runs=10, seed=1, keep="agents", progress=False)  # fmt: skip
        assert played.agents is not None
        assert played.frame["paid"].sum() == 0
        alone.append(played.agents.filter(agent=0).sort("run")["reward"].to_numpy())
    difference = alone[0] - alone[1]
    withheld = rows[theory.WITHHOLD]
    assert withheld["alone"] == pytest.approx(difference.mean())
    assert withheld["alone_error"] == pytest.approx(difference.std(ddof=1) / 10**0.5)
    assert withheld["alone"] > 3 * withheld["alone_error"]
    for row in rows.values():
        assert row["gain_reward"] + row["gain_bonus"] == pytest.approx(row["gain"])
        assert row["added"] + row["alone"] == pytest.approx(row["gain"])
    assert {rows[conduct]["alone"] for conduct in rows if conduct != theory.WITHHOLD} == {0.0}
    truth = found.findings[0].truth
    assert f"exploring so little earns {withheld['alone']:.1f} ± {withheld['alone_error']:.1f} where nobody" in truth


def test_a_part_and_a_setting_can_be_chosen_and_the_rest_added_later(tmp_path: Path) -> None:
    first = reproduce(tmp_path, runs=2, figures=["2a"], settings=["certified"], progress=False)
    assert set(first.sections[0].rows["principal"]) == {"none", "certified"}
    (tmp_path / "report.unfinished").write_text("the power failed here")
    kept = sorted((tmp_path / "studies" / "paper-2ab" / "shards").iterdir())
    second = reproduce(tmp_path, runs=2, figures=["2a"], progress=False)
    assert set(second.sections[0].rows["principal"]) > {"none", "certified", "paper", "authors"}
    assert set(kept) < set((tmp_path / "studies" / "paper-2ab" / "shards").iterdir())
    assert {path.name for path in tmp_path.iterdir()} == {"studies", "figures", "report.html"}


def test_another_seed_needs_another_folder(tmp_path: Path) -> None:
    request = Request(tmp_path, runs=2, seed=1, settings=("certified",), progress=False)
    gather("paper-2ab", request)
    with pytest.raises(studies.Changed) as changed:
        gather("paper-2ab", Request(tmp_path, runs=2, seed=2, settings=("certified",), progress=False))
    assert "+seed = 2" in changed.value.difference


def test_bad_wishes_are_refused_before_anything_runs(tmp_path: Path) -> None:
    for wish, word in (({"figures": ["2e"]}, "figure"), ({"settings": ["ours"]}, "setting"), ({"runs": 1}, "runs")):
        with pytest.raises(InvalidInput, match=f"^{word} must"):
            reproduce(tmp_path / "new", progress=False, **wish)
    assert not (tmp_path / "new").exists()
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(InvalidInput, match=r"holds 'letter.txt'"):
        reproduce(tmp_path, runs=2, progress=False)


def test_the_lower_bound_of_fig_2c_has_the_free_pulls_of_half_the_horizon(whole: Reproduction) -> None:
    rows = whole.sections[[section.name for section in whole.sections].index("2c")].rows
    delta = min(delta for delta in rows["delta"].unique() if delta > 0.005)
    shown = rows.filter(pl.col("delta") == delta)["lower_bound"].unique().to_list()
    game = fp.instances.toy()
    free = natural_pulls(game.means, 50_000)
    assert shown == [pytest.approx(planning.lower_bound(game, free, delta).sum())]
    in_money = rows.filter(pl.col("delta") == delta)["lower_money"].unique().to_list()
    assert in_money == [pytest.approx(cost_of(planning.lower_bound(game, free, delta, game.losses), game.losses))]


def test_fig_2_has_a_second_column_of_what_compensation_costs_on_the_same_runs(whole: Reproduction) -> None:
    """Everybody takes every offer, so prices change nothing else."""
    by_name = {section.name: section for section in whole.sections}
    assert "if compensated" in by_name["2a"].findings[0].measured["certified"]
    assert "if compensated" in by_name["2d"].findings[0].measured["certified, σ = 0.1"]
    panels = [(ax.get_title().split(",")[0], ax.get_ylabel().split()[0]) for ax in by_name["2d"].figure.axes]
    assert panels == [("bonuses of 1", "bonuses")] * 2 + [("compensated", "spent,")] * 2
    assert by_name["2c"].findings[1].claim.startswith("Not in the paper: what the same pulls cost")
    rows = by_name["2c"].rows
    paying = rows.filter(pl.col("paid") > 100)
    assert paying.height > 20
    assert (paying["spent"] < 0.8 * paying["paid"]).all()
    delta = min(rows["delta"].to_list())
    plain = fp.simulate(fp.instances.toy(), principal=fp.Principal(fp.rules.Certified(delta)), horizon=100_000,
                        runs=2, seed=1, until="decided", progress=False)  # fmt: skip
    assert rows.filter(principal="certified", delta=delta)["paid"].to_list() == [plain.frame["paid"].mean()]


def test_refusing_a_compensated_offer_does_not_pay_and_gains_are_split(tmp_path: Path) -> None:
    rows = theory.deviations(
        {"certified": fp.rules.Certified(0.01)}, {theory.COMPENSATED: theory.TERMS[theory.COMPENSATED]}, 30, 1
    )
    found = {row["conduct"]: row for row in rows.iter_rows(named=True)}
    assert (found["follow"]["gain"], found["follow"]["gain_error"]) == (0.0, 0.0)
    for conduct, row in found.items():
        assert row["gain_reward"] + row["gain_bonus"] == pytest.approx(row["gain"])
        if conduct not in ("follow", theory.WITHHOLD):
            assert row["gain_low"] < 5.0, conduct  # prices fall short of true gaps by a few units in all
    assert found["refuse"]["bonus"] == 0.0 < found["follow"]["bonus"]
