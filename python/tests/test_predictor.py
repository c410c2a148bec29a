import sys
import types
from pathlib import Path

import pytest

import kscout
from kscout import Conv, Gemm, Predictor

FOLDER = Path(kscout.__file__).parent / "models" / "conv_fwd_bf16_gfx950"
PROBLEM = Conv(8, 256, 128, 28, 28, 3, 3, "bf16", pad=1)
NAMES = [f"grouped_conv_forward_bf16_2d_{tile}_{pipeline}" for tile in ("16x64x64", "64x64x128") for pipeline in ("compv3", "compv5")]
ROW = {"N": 8, "C": 256, "K": 128, "G": 1, "Hi": 28, "Wi": 28, "Y": 3, "X": 3, "stride_h": 1, "stride_w": 1, "pad_h": 1, "pad_w": 1}
WHOLE_ROW = {**ROW, "dilation_h": 1, "dilation_w": 1, "layout": "nhwgc", "dtype": "bf16", "variant": "forward"}


def fields(choice):
    return choice.name, choice.time_us, choice.tflops, choice.gb_s, choice.margin, choice.score, choice.source


def test_named_kernels_are_ranked_by_predicted_speed():
    predictor = Predictor(FOLDER)
    ranked = predictor.rank_kernels(PROBLEM, NAMES)
    assert {choice.name for choice in ranked} == set(NAMES)
    assert [c.tflops for c in ranked] == sorted(predictor.predict(PROBLEM, NAMES), reverse=True)
    for choice, after in zip(ranked, ranked[1:]):
        assert choice.time_us == pytest.approx(PROBLEM.flops / choice.tflops * 1e-6)
        assert choice.gb_s == pytest.approx(PROBLEM.min_bytes / choice.time_us * 1e-3)
        assert choice.margin == pytest.approx(after.time_us / choice.time_us - 1)
    assert ranked[-1].margin is None and ranked[0].source == "model" and ranked[0].confidence is None
    assert fields(predictor.select_best(PROBLEM, NAMES)) == fields(ranked[0]) and predictor.rank_kernels(PROBLEM, []) == []
    assert [fields(c) for c in predictor.rank_kernels(WHOLE_ROW, NAMES)] == [fields(c) for c in ranked]
    # The ranking of the selector, where both know the kernels.
    speed = {choice.name: choice.tflops for choice in kscout.rank_kernels(PROBLEM, 20, device="gfx950")}
    assert all(speed[c.name] == pytest.approx(c.tflops) for c in ranked if "compv3" in c.name)


def test_choices_have_the_names_that_the_caller_wrote():
    # Older spellings, short names of mem, and two names of one kernel.
    names = ["grouped_conv_fwd_bf16_2d_16x64x64_compv3", "benchmark_grouped_conv_forward_bf16_2d_16x64x64_compv3",
             "grouped_conv_forward_bf16_2d_64x64x64_mem", "grouped_conv_forward_bf16_2d_64x64x128_compv5"]
    predictor = Predictor(FOLDER)
    ranked = predictor.rank_kernels(PROBLEM, names)
    assert sorted(choice.name for choice in ranked) == sorted(names)
    for choice in ranked:
        assert choice.tflops == predictor.predict_tflops(PROBLEM, choice.name) and choice.name in repr(choice)
        assert choice.config == kscout.Config(choice.name)
    both = [choice.name for choice in ranked if choice.config == kscout.Config(names[0])]
    assert both == names[:2], "equal kernels keep their order"
    assert [c.name for c in predictor.rank_kernels(PROBLEM, [kscout.Config(names[0])])] == [kscout.Config(names[0]).name]
    assert [c.name for c in kscout.rank_kernels(PROBLEM, 4, kernels=iter(names), model=FOLDER)] == [c.name for c in ranked]


@pytest.mark.parametrize("top", [0, 1, 3, 4, 9])
@pytest.mark.parametrize("kernels", [None, NAMES])
def test_rank_kernels_gives_a_list_of_choices_whatever_is_asked(top, kernels):
    for more in {"device": "gfx950"}, {"model": FOLDER}, {"model": str(FOLDER), "device": "gfx950"}:
        ranked = kscout.rank_kernels(PROBLEM, top, kernels=kernels, **more)
        assert type(ranked) is list and {type(choice) for choice in ranked} <= {kscout.Choice}
        assert len(ranked) == (top if kernels is None else min(top, len(NAMES)))
    if kernels:
        assert [fields(c) for c in ranked] == [fields(c) for c in Predictor(FOLDER).rank_kernels(PROBLEM, NAMES)[:top]]


def test_rank_kernels_refuses_what_it_would_have_to_ignore():
    with pytest.raises(TypeError, match="top must be an int, not list; .*kernels="):
        kscout.rank_kernels(PROBLEM, NAMES)
    with pytest.raises(kscout.InvalidArgument, match="top=-1 must be at least 0"):
        kscout.rank_kernels(PROBLEM, -1)
    with pytest.raises(kscout.InvalidArgument, match="by='latency' with kernels="):
        kscout.rank_kernels(PROBLEM, kernels=NAMES, by="latency", model=FOLDER)
    for kernels in None, NAMES:
        with pytest.raises(kscout.Unsupported, match="cannot answer for 'gfx942'"):
            kscout.rank_kernels(PROBLEM, kernels=kernels, model=FOLDER, device="gfx942")


def test_all_quantities_of_a_kernel_agree_and_times_are_microseconds():
    predictor = Predictor(FOLDER)
    values = predictor.predict_all(PROBLEM, {"kernel_name": NAMES[0]})
    assert list(values) == predictor.targets == ["tflops", "latency_us", "bandwidth_gb_s"]
    assert values["latency_us"] == pytest.approx(PROBLEM.flops / (values["tflops"] * 1e12) * 1e6)
    assert values["bandwidth_gb_s"] == pytest.approx(PROBLEM.min_bytes / (values["latency_us"] * 1e-6) / 1e9)
    assert values["latency_us"] == predictor.select_best(PROBLEM, NAMES[:1]).time_us
    assert predictor.predict_tflops(PROBLEM, NAMES[0]) == values["tflops"]
    assert predictor.predict_latency_us(PROBLEM, NAMES[0]) == values["latency_us"]
    assert predictor.predict_bandwidth_gb_s(PROBLEM, NAMES[0]) == values["bandwidth_gb_s"]
    with pytest.raises(kscout.NotFound, match="'latency'; the folder has tflops, latency_us, bandwidth_gb_s"):
        predictor.predict(PROBLEM, NAMES, "latency")


@pytest.mark.parametrize("op_type, microseconds", [("grouped_conv", 250), ("conv_fwd", 0.25)])
def test_folders_of_ck_tile_hold_milliseconds_and_ours_microseconds(latency_folder, op_type, microseconds):
    predictor = Predictor(latency_folder(op_type), "ck_conv_83")
    assert predictor.targets == ["latency_us"]
    assert predictor.predict_latency_us(PROBLEM, NAMES[0]) == pytest.approx(microseconds)
    assert predictor.predict_all(PROBLEM, NAMES[0]) == {"latency_us": pytest.approx(microseconds)}
    with pytest.raises(kscout.NotFound, match="no model of target 'tflops'; the folder has latency_us"):
        predictor.predict_tflops(PROBLEM, NAMES[0])


def test_a_kernel_never_changes_the_problem():
    predictor = Predictor(FOLDER)
    for ask in predictor.predict, predictor.rank_kernels:
        with pytest.raises(kscout.InvalidArgument, match="other types"):
            ask(PROBLEM, ["grouped_conv_forward_fp16_2d_16x64x64_compv3"])
    measured = {"N": 1, "C": 3, "tflops": 9.5, "hw_num_cus": 304, "is_valid": True}  # a row of a table: of another problem
    row = predictor.rank_kernels(PROBLEM, [{"kernel_name": NAMES[0], **measured}])
    assert [fields(c) for c in row] == [fields(c) for c in predictor.rank_kernels(PROBLEM, NAMES[:1])]
    with pytest.raises(kscout.InvalidArgument, match="no kernels"):
        predictor.select_best(PROBLEM, [])
    with pytest.raises(TypeError, match="kernels is one str, .* list"):
        predictor.predict(PROBLEM, NAMES[0])
    with pytest.raises(kscout.NotFound, match="no model"):
        name = "gemm_universal_fp8_rcr_compv3_cshuffle_intrawave_False_False_False_False_128x128x128_1x4x1_16x16x128"
        kscout.rank_kernels(Gemm(16, 16, 16, "fp8"), kernels=[name], device="gfx950")


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
