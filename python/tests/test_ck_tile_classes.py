"""CK Tile's Python classes: scripts written for them run when they import from kscout.ck_tile."""

import json

import numpy as np
import pytest

import kscout
from kscout import Config, Conv, ck_tile
from kscout.ck_tile import GroupedConvFeatureEngine, GroupedConvKernelConfig, GroupedConvProblem, GroupedConvRegistry, Predictor
from test_conv_run import assert_convolution
from test_predictor import FOLDER

BACKWARD = [
    {
        "kernel_name": f"grouped_conv_bwd_data_bf16_2d_{m}x{n}x{k}_{pipeline}",
        **{"block_size": m, "gemm_m_per_block": n, "gemm_n_per_block": k, "pipeline": pipeline},
        **{"wave_mode": "intrawave", "has_dsb": 0, "has_si": 0},
    }
    for m, n, k in ((16, 64, 64), (32, 64, 128), (64, 128, 64), (128, 64, 128))
    for pipeline in ("compv3", "mem")
]
#: The problem of a user of CK Tile: no layout, no direction, no dilation.
ASKED = {"N": 16, "C": 256, "K": 128, "G": 1, "Hi": 28, "Wi": 28, "Y": 3, "X": 3, "stride_h": 1, "stride_w": 1, "pad_h": 1, "pad_w": 1}
ASKED["dtype"] = "bf16"


def measured(sizes):
    """A table as CK Tile's converters write it: problem, kernel, device and result in each row."""
    return [
        {
            **{"op_type": "grouped_conv", "arch": "gfx950", "dtype": "bf16", "variant": "bwd_data", "ndim_spatial": 2},
            **{**ASKED, **size},
            **kernel,
            **{"tflops": 1.0 + kernel["block_size"] / size["C"], "latency_ms": 0.1, "non_zero": 7, "is_valid": True, "run_id": 0},
            **{"problem_idx": i, "hw_num_cus": 256, "hw_lds_capacity": 65536},
        }
        for i, size in enumerate(sizes)
        for kernel in BACKWARD
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model folder and a table of CK Tile's kind; the model is LightGBM's, of the features of the engine."""
    lightgbm, pandas = pytest.importorskip("lightgbm"), pytest.importorskip("pandas")
    folder = tmp_path_factory.mktemp("grouped_conv_bwd_data_bf16_gfx950")
    table = pandas.DataFrame(measured([{"C": c, "K": k, "Hi": h, "Wi": h} for c in (32, 64, 256) for k in (64, 128) for h in (7, 28)]))
    engine = GroupedConvFeatureEngine("ck_conv_83")
    features, names = engine.extract_batch(table), engine.get_feature_names()
    assert features.shape == (len(table), 83) and engine.get_categorical_features() == ["pipeline"]
    data = lightgbm.Dataset(features, table["tflops"], feature_name=names, categorical_feature=["pipeline"])
    parameters = {"objective": "regression", "num_leaves": 15, "min_data_in_leaf": 2, "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(parameters, data, 30)
    booster.save_model(folder / "model_tflops.lgbm")
    spec = {"op_type": "grouped_conv", "dtype": "bf16", "arch": "gfx950", "feature_names": names, "categorical_features": ["pipeline"]}
    (folder / "feature_spec.json").write_text(json.dumps({**spec, "targets": ["tflops"], "log_targets": []}))
    table.to_parquet(folder / "rows.parquet")
    return folder


def test_the_predictor_example_needs_other_imports_only(trained):
    import lightgbm
    import pandas

    predictor = Predictor(trained, feature_engine=GroupedConvFeatureEngine())
    rows = pandas.read_parquet(trained / "rows.parquet")
    configs = [rows[rows["kernel_name"] == name].iloc[0].to_dict() for name in rows["kernel_name"].unique()]
    ranked = predictor.rank_kernels(ASKED, configs)
    best_name, best_tflops = ranked[0]

    assert {name for name, _ in ranked} == {kernel["kernel_name"] for kernel in BACKWARD} and predictor.select_best(ASKED, configs) == best_name
    assert [tflops for _, tflops in ranked] == sorted((tflops for _, tflops in ranked), reverse=True)
    # LightGBM's own predictions, of the rows with the problem that was asked for.
    engine = GroupedConvFeatureEngine("ck_conv_83")
    booster = lightgbm.Booster(model_file=str(trained / "model_tflops.lgbm"))
    for name, tflops in ranked:
        kernel = next(config for config in configs if config["kernel_name"] == name)
        assert tflops == pytest.approx(booster.predict(engine.extract(ASKED, kernel)[None])[0], rel=1e-12)
        assert predictor.predict_tflops(ASKED, kernel) == tflops
    assert best_tflops > ranked[-1][1]


def test_a_problem_without_a_direction_has_that_of_the_kernels():
    predictor = Predictor(FOLDER, GroupedConvFeatureEngine())
    forward = [kernel["kernel_name"].replace("bwd_data", "forward") for kernel in BACKWARD]
    strict = Predictor(FOLDER, absent_problem={**ck_tile.CONV_2D, "variant": "forward"})
    assert predictor.rank_kernels(ASKED, forward) == strict.rank_kernels(ASKED, forward)
    assert predictor.rank_kernels({**ASKED, "direction": "fwd"}, forward) == strict.rank_kernels(ASKED, forward)
    short = {"tile_m": 16, "tile_n": 64, "tile_k": 64, "pipeline": "compv3"}  # no name, no flags: forward, intrawave
    assert predictor.predict_tflops(ASKED, short) == strict.predict_tflops(ASKED, "grouped_conv_forward_bf16_2d_16x64x64_compv3_intrawave")
    problem = GroupedConvProblem(**{k: v for k, v in ASKED.items() if k != "dtype"})
    assert predictor.rank_kernels(problem, forward) == strict.rank_kernels(ASKED, forward)
    with pytest.raises(kscout.InvalidArgument, match="lacks the required dtype"):
        predictor.rank_kernels({k: v for k, v in ASKED.items() if k != "dtype"}, forward)
    with pytest.raises(TypeError, match="kernels is one str"):
        predictor.rank_kernels(ASKED, forward[0])
    with pytest.raises(TypeError, match="not str; a schema: schema="):
        Predictor(FOLDER, "ck_conv_83")


def test_engines_compute_published_features():
    engine = ck_tile.GemmUniversalFeatureEngine("ck_gemm_55")
    assert len(engine.get_feature_names()) == 55 and len(ck_tile.GemmUniversalFeatureEngine().get_feature_names()) == 72
    assert len(ck_tile.GemmUniversalVecFeatureEngine().get_feature_names()) == 78
    name = "gemm_universal_fp8_rcr_compv3_cshuffle_intrawave_False_False_False_False_128x128x128_1x4x1_16x16x128"
    row = dict(zip(engine.get_feature_names(), engine.extract({"m": 129, "n": 256, "k": 512, "dtype": "fp8", "layout": "rcr"}, name)))
    assert (row["M"], row["tile_m"], row["num_tiles_m"]) == (129, 128, 2)
    with pytest.raises(TypeError, match="kscout.Schema"):
        ck_tile.FeatureEngine()
    with pytest.raises(TypeError):
        GroupedConvFeatureEngine(num_cus=304)


def random_tensors(problem, seed=1):
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape, np.float32) for shape in (problem.input_shape(), problem.weight_shape(), problem.output_shape())]


def bf16(values):
    """The nearest bf16 values, ties to even, by arithmetic on exponents."""
    fraction, exponent = np.frexp(values.astype(np.float64))
    return np.ldexp(np.round(fraction * 256), exponent - 8).astype(np.float32)


def test_the_registry_example_needs_other_imports_only():
    problem = GroupedConvProblem(
        N=2, C=128, K=256, G=1, Hi=28, Wi=28, Y=3, X=3, stride_h=1, stride_w=1, pad_h=1, pad_w=1, dtype="bf16", direction="forward"
    )
    input_tensor, weight_tensor, _ = random_tensors(problem)
    registry = GroupedConvRegistry(arch="gfx950")
    result = registry.run(problem, input_tensor, weight_tensor)

    assert result.success and result.error == "" and result.time_ms > 0
    assert result.tflops == pytest.approx(problem.flops / result.time_ms * 1e-9)
    assert result.output.shape == problem.output_shape() and result.output.dtype == np.float32
    assert np.array_equal(result.output, bf16(result.output)), "a bf16 convolution gives bf16 values"
    assert registry.get_solution(problem).backend == "cpu"
    assert registry.select(problem) == kscout.rank_kernels(problem.conv(), 1, device="gfx950")[0].config


@pytest.mark.parametrize("direction, dtype", [("forward", "bf16"), ("bwd_data", "fp16"), ("bwd_weight", "bf16"), ("bwd_weight", "fp32")])
@pytest.mark.parametrize("sizes", [{"G": 2, "stride_h": 2, "dilation_w": 2}, {"Di": 4, "Z": 2, "stride_d": 2}])
def test_every_direction_runs_on_the_cpu(direction, dtype, sizes):
    problem = GroupedConvProblem(N=2, C=16, K=24, Hi=9, Wi=7, Y=3, X=2, pad_h=1, pad_w=1, direction=direction, dtype=dtype, **sizes)
    stored = random_tensors(problem)
    rounded = [{"bf16": bf16, "fp16": lambda v: v.astype(np.float16).astype(np.float32), "fp32": lambda v: v}[dtype](t) for t in stored]
    x, w, y = stored
    a, b, computed = {"forward": (x, w, y), "bwd_data": (y, w, x), "bwd_weight": (x, y, w)}[direction]
    output = np.full_like(computed, np.nan)
    result = GroupedConvRegistry().run(problem, a, b, output)
    assert result.output is output and output.shape == problem.result_shape()
    flat = [t.reshape(*t.shape[:-2], -1) for t in (rounded[0],)] + [rounded[1].reshape(-1, *rounded[1].shape[2:])]
    flat.append(rounded[2].reshape(*rounded[2].shape[:-2], -1))
    assert_convolution(result.output, problem.conv(), flat, rounding={"bf16": 2**-8, "fp16": 2**-11, "fp32": 0}[dtype])
    again = ck_tile.GpuGroupedConvRunner().run(input_np=a, weight_np=b, problem=problem)
    assert again.success and np.array_equal(again.output, output)


def test_values_are_rounded_to_nearest_even():
    problem = GroupedConvProblem(N=1, C=1, K=1, Hi=2, Wi=4, Y=1, X=1, dtype="bf16")
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 1 + 2**-8 + 2**-20, 0, np.inf, -np.inf, np.nan], np.float32)
    x[-1:].view(np.uint32)[...] = 0x7FFFFFFF  # the nan that rounding upwards would make a zero
    result = GroupedConvRegistry().run(problem, x.reshape(problem.input_shape()), np.ones(problem.weight_shape(), np.float32))
    np.testing.assert_array_equal(result.output.reshape(-1), np.array([1, 1 + 2**-6, -1, 1 + 2**-7, 0, np.inf, -np.inf, np.nan], np.float32))


def test_arrays_of_16_bits_keep_their_type():
    problem = GroupedConvProblem(N=1, C=8, K=8, Hi=5, Wi=5, Y=3, X=3)
    x, w, _ = (t.astype(np.float16) for t in random_tensors(problem))
    result = GroupedConvRegistry().run(problem, x, w)
    assert result.output.dtype == np.float16, "the type of a problem without dtype is that of the arrays"
    exact = GroupedConvRegistry().run(problem, x.astype(np.float32), w.astype(np.float32)).output
    assert np.array_equal(result.output, exact.astype(np.float16))


def test_what_cannot_run_is_a_result_and_what_is_wrong_an_error():
    problem = GroupedConvProblem(N=1, C=8, K=8, Hi=5, Wi=5, Y=3, X=3, dtype="int8")
    x, w, _ = (t.astype(np.int8) for t in random_tensors(problem))
    result = GroupedConvRegistry().run(problem, x, w)
    assert not result.success and "int8" in result.error and result.output is None
    with pytest.raises(kscout.InvalidArgument, match="has shape"):
        GroupedConvRegistry().run(GroupedConvProblem(N=2, C=8, K=8, Hi=5, Wi=5, Y=3, X=3, dtype="fp32"), x.astype(np.float32), w.astype(np.float32))


def test_problems_have_ck_tiles_names_and_sizes():
    problem = GroupedConvProblem(N=8, C=64, K=128, Hi=28, Wi=20, Y=3, X=3, stride_h=2, pad_h=1, dilation_w=2, direction="bwdd", dtype="fp16")
    assert problem.direction == "bwd_data" and (problem.Ho, problem.Wo, problem.ndim_spatial) == (14, 16, 2)
    assert problem.conv() == Conv(8, 64, 128, 28, 20, 3, 3, "fp16", stride_h=2, pad_h=1, dilation_w=2, op="conv_bwd_data")
    assert problem.flops == 2.0 * 8 * 128 * 14 * 16 * 64 * 9 and problem.gflops == problem.flops / 1e9
    deep = GroupedConvProblem(Di=5, Z=3, pad_d=1, G=4)
    assert deep.is_3d and deep.Do == 5 and deep.conv().layout == "ndhwgc"
    assert deep.input_shape() == (1, 5, 28, 28, 4, 16) and deep.weight_shape() == (4, 32, 3, 3, 3, 16) and deep.output_shape() == (1, 5, 26, 26, 4, 32)
    assert GroupedConvProblem(split_k=4, direction="bwd_weight").conv().split_k == 4 and problem.conv().split_k == 0
    for wrong in {"C": 6, "G": 4}, {"K": 6, "G": 4}, {"Y": 40}, {"stride_h": 0}, {"direction": "sideways"}:
        with pytest.raises(ValueError):
            GroupedConvProblem(**wrong)


def test_kernel_configs_have_ck_tiles_name_and_ours():
    config = GroupedConvKernelConfig(dtype="bf16", tile_m=16, tile_n=64, tile_k=64, wave_m=1, wave_n=4, warp_tile_m=16, warp_tile_n=16, pipeline="compv3")
    assert config.name == "grouped_conv_forward_bf16_2d_16x64x64_compv3_intrawave"
    assert config.config.name == "grouped_conv_fwd_bf16_nhwgc_2d_compv3_cshuffle_intrawave_16x64x64_1x4x1_16x16x16"
    full = GroupedConvKernelConfig(
        variant="bwdw", num_groups_to_merge=2, double_smem_buffer=True, split_image=True, two_stage=True, vector_size_a=2, block_per_cu=2,
        num_wave_groups=2, explicit_gemm=True, pad_k=False, pipeline="compv3", layout="NHWGC_KYXGC_NHWGK"
    )  # fmt: skip
    assert full.name.endswith("_gm2_dsb_si_2stage")
    values = full.config.as_dict()
    wanted = dict(merged_groups=2, double_buffer=1, split_image=1, two_stage=1, vec_a=2, blocks_per_cu=2, wave_groups=2, explicit_gemm=1, pad_k=0)
    assert {name: values[name] for name in wanted} == wanted and Config(full.config.name) == full.config
    assert GroupedConvKernelConfig(ndim_spatial=3).config == GroupedConvKernelConfig(ndim_spatial=3, layout="ndhwgc").config
    registry = GroupedConvRegistry()
    registry.add(full)
    assert registry.kernels == [full.config], "with waves, vector widths and pads, which the short name lacks"
    assert GroupedConvKernelConfig(variant="bwd_data", pipeline="compv4").pipeline == "compv4", "nothing is corrected"
    with pytest.raises(kscout.InvalidArgument):
        GroupedConvKernelConfig(pipeline="compv")


def test_a_registry_selects_among_the_kernels_that_were_added():
    registry = GroupedConvRegistry("mine", arch="gfx950")
    problem = GroupedConvProblem(N=8, C=256, K=128, Hi=28, Wi=28, pad_h=1, pad_w=1, dtype="bf16")
    assert len(registry) == 0 and registry.name == "mine"
    names = [f"grouped_conv_forward_bf16_2d_{tile}_compv3" for tile in ("16x64x64", "64x64x128")]
    for name in names:
        registry.add(name)
    registry.add(BACKWARD[0])
    assert registry.kernels == [*names, BACKWARD[0]]
    assert registry.select(problem) == kscout.rank_kernels(problem.conv(), 1, kernels=names, device="gfx950")[0].config
    weight = GroupedConvProblem(dtype="bf16", direction="bwd_weight")
    assert registry.select(weight) is None


def test_a_runner_is_available_before_its_first_run():
    runner = ck_tile.GpuGroupedConvRunner()
    assert runner.is_available() and runner.get_init_error() is None
    runner.cleanup()
