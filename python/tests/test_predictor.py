import sys
import types
from pathlib import Path

import pytest

import kscout
from kscout import Conv, Gemm, Predictor

FOLDER = Path(kscout.__file__).parent / "models" / "conv_fwd_bf16_gfx950"
PROBLEM = {"N": 8, "C": 256, "K": 128, "G": 1, "Hi": 28, "Wi": 28, "Y": 3, "X": 3, "stride_h": 1, "stride_w": 1, "pad_h": 1, "pad_w": 1}
NAMES = [f"grouped_conv_forward_bf16_2d_{tile}_{pipeline}" for tile in ("16x64x64", "64x64x128") for pipeline in ("compv3", "compv5")]


def test_named_kernels_are_ranked_for_a_problem_in_a_dict():
    predictor = Predictor(FOLDER)
    ranked = predictor.rank_kernels(PROBLEM, NAMES)
    assert {name for name, _ in ranked} == set(NAMES)
    assert [value for _, value in ranked] == sorted((value for _, value in ranked), reverse=True)
    assert kscout.rank_kernels(PROBLEM, NAMES, model=str(FOLDER)) == ranked
    assert kscout.rank_kernels(PROBLEM, NAMES, device="gfx950") == ranked
    assert predictor.select_best(PROBLEM, NAMES) == ranked[0][0] and predictor.rank_kernels(PROBLEM, []) == []
    # The ranking of the selector, where both know the kernels.
    choices = kscout.rank_kernels(PROBLEM, 20, device="gfx950")
    speed = {choice.name: choice.tflops for choice in choices}
    assert all(speed[name] == pytest.approx(value) for name, value in ranked if "compv3" in name)


def test_all_values_of_a_kernel_agree():
    problem = Conv(8, 256, 128, 28, 28, 3, 3, "bf16", pad=1)
    values = Predictor(FOLDER).predict_all(PROBLEM, {"kernel_name": NAMES[0]})
    assert values["tflops"] == pytest.approx(problem.flops / values["latency_ms"] * 1e-9)
    assert values["bandwidth"] == pytest.approx(problem.least_bytes / values["latency_ms"] * 1e-6)
    fields = {"tile_m": 16, "tile_n": 64, "tile_k": 64, "pipeline": "compv3"}
    assert Predictor(FOLDER).predict_tflops(problem, fields) == pytest.approx(values["tflops"], rel=0.5)


def test_a_kernel_never_changes_the_problem():
    with pytest.raises(kscout.InvalidArgument, match="other types"):
        Predictor(FOLDER).rank_kernels(PROBLEM, ["grouped_conv_forward_fp16_2d_16x64x64_compv3"])
    with pytest.raises(kscout.InvalidArgument, match="no 'Ho'"):
        Predictor(FOLDER).rank_kernels({**PROBLEM, "Ho": 3}, NAMES)
    with pytest.raises(kscout.InvalidArgument, match="no kernels"):
        Predictor(FOLDER).select_best(PROBLEM, [])
    with pytest.raises(kscout.NotFound, match="no model"):
        kscout.rank_kernels(Gemm(16, 16, 16, "fp8"), ["gemm_universal_fp8_rcr_compv3_cshuffle_intrawave_False_False_False_False_128x128x128_1x4x1_16x16x128"], device="gfx950")


def test_parameters_are_searched_with_optuna(monkeypatch, tmp_path):
    """Optuna's part is played here: the package is optional, and what is asked of it is little."""

    class Trial:
        def suggest_int(self, name, low, high, log):
            return 7 if name == "leaves" else low

        def suggest_float(self, name, low, high, log):
            return high

    class Study:
        def optimize(self, objective, n_trials):
            self.values = [objective(Trial()) for _ in range(n_trials)]
            self.best_params = {"leaves": 7, "learning_rate": 0.3, "rounds": 50}

    study = Study()
    fake = types.SimpleNamespace(create_study=lambda **_: study, samplers=types.SimpleNamespace(TPESampler=lambda seed: seed))
    monkeypatch.setitem(sys.modules, "optuna", fake)
    calls = []

    def train(data, out, **options):
        calls.append(options)
        return [{"efficiency_mean": 90.0 + len(calls)}]

    monkeypatch.setattr("kscout._tuning.train", train)
    found = kscout.search_parameters("d.parquet", tmp_path / "m", trials=2, folds=3)
    assert found["parameters"]["leaves"] == 7 and len(found["trials"]) == 2 and found["efficiency_mean"] == 93.0
    assert calls[-1] == {"folds": 3, "leaves": 7, "learning_rate": 0.3, "rounds": 50}
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(kscout.Unsupported, match="optuna"):
        kscout.search_parameters("d.parquet", tmp_path / "m")
