"""Rows of CK Tile's tables, and its Predictor with its units."""

import numpy as np
import pytest

import kscout
from kscout import Conv, Gemm, ck_tile
from kscout.ck_tile import config_from, problem_from
from test_predictor import FOLDER, NAMES, PROBLEM, ROW, WHOLE_ROW

GEMM_ROW = {"m": 16, "n": 4096, "k": 512, "split_k": 1, "dtype": "fp8", "layout": "rcr"}
DEEP_ROW = {**WHOLE_ROW, "layout": "ndhwgc", "Di": 8, "Z": 3, "stride_d": 1, "dilation_d": 1, "pad_d": 1}
GEMM_NAME = "gemm_universal_fp8_rcr_compv3_cshuffle_intrawave_False_True_False_False_128x64x256_1x4x1_16x16x128"
GEMM_KERNEL = {
    **{"tile_m": 128, "tile_n": 64, "tile_k": 256, "warp_m": 1, "warp_n": 4, "warp_k": 1},
    **{"warp_tile_m": 16, "warp_tile_n": 16, "warp_tile_k": 128},
    **{"pipeline": "compv3", "scheduler": "intrawave", "epilogue": "cshuffle"},
    **{"pad_m": False, "pad_n": True, "pad_k": False, "persistent": False},
}
CONV_KERNEL = {"tile_m": 16, "tile_n": 64, "tile_k": 32, "pipeline": "compv3", "scheduler": "interwave", "has_dsb": True, "has_si": False}
FIRST_TILE = {"block_size": 16, "gemm_m_per_block": 64, "gemm_n_per_block": 32}
LATER_TILE = {"gemm_m_per_block": 16, "gemm_n_per_block": 64, "gemm_k_per_block": 32}
FULL_NAME = "grouped_conv_fwd_bf16_nhwgc_2d_compv3_cshuffle_intrawave_16x64x32_1x4x1_16x16x32"
CONV_NAME = "grouped_conv_forward_bf16_2d_16x64x32_compv3_interwave_dsb"


def without(row, *keys):
    return {key: value for key, value in row.items() if key not in keys}


def test_whole_rows_are_problems():
    assert problem_from(GEMM_ROW) == Gemm(16, 4096, 512, "fp8", "rcr")
    assert problem_from({**GEMM_ROW, "split_k": 4}) == Gemm(16, 4096, 512, "fp8", "rcr", split_k=4)
    assert problem_from({**without(GEMM_ROW, "m", "n", "k"), "M": 16, "N": 4096, "K": 512}) == problem_from(GEMM_ROW)
    assert problem_from(WHOLE_ROW) == PROBLEM
    assert problem_from(DEEP_ROW) == Conv(8, 256, 128, 28, 28, 3, 3, "bf16", "ndhwgc", d=8, z=3, pad=1)
    for word, op in {"fwd": "conv_fwd", "bwd_data": "conv_bwd_data", "bwdd": "conv_bwd_data", "2d_bwdw": "conv_bwd_weight"}.items():
        assert problem_from({**without(WHOLE_ROW, "variant"), "direction": word}) == PROBLEM.replace(op=op)
    of_numpy = {key: np.int64(value) if isinstance(value, int) else np.str_(value) for key, value in WHOLE_ROW.items()}
    assert problem_from(of_numpy) == PROBLEM
    for whole in PROBLEM, problem_from(GEMM_ROW):
        assert problem_from(whole) == problem_from(str(whole)) == whole


@pytest.mark.parametrize("row", [GEMM_ROW, WHOLE_ROW, DEEP_ROW])
def test_every_key_of_a_problem_is_required(row):
    for key in row:
        with pytest.raises(kscout.InvalidArgument, match=rf"lacks the required {key}\b.*required: .*absent="):
            problem_from(without(row, key))


@pytest.mark.parametrize("kernel, problem", [(GEMM_KERNEL, Gemm("gemm:1x2x3:fp8")), (CONV_KERNEL, PROBLEM)])
def test_every_key_of_a_kernel_is_required(kernel, problem):
    for key in kernel:
        with pytest.raises(kscout.InvalidArgument, match=rf"kernel lacks the required {key}\b.*required: .*absent="):
            config_from(without(kernel, key), problem)


def test_what_a_table_means_by_absent_keys_is_asked_for():
    assert problem_from(without(GEMM_ROW, "split_k"), absent=ck_tile.GEMM) == problem_from(GEMM_ROW)
    assert problem_from(ROW, absent={**ck_tile.CONV_2D, "dtype": "bf16", "variant": "forward"}) == PROBLEM
    flat = problem_from(ROW, absent={**ck_tile.CONV_3D, "dtype": "bf16", "direction": "fwd"})
    assert flat == Conv(8, 256, 128, 28, 28, 3, 3, "bf16", "ndhwgc", pad_h=1, pad_w=1)
    assert problem_from(WHOLE_ROW, absent={"dtype": "fp16", "dilation_h": 2}) == PROBLEM, "the row's own values win"
    short = {"tile_m": 16, "tile_n": 64, "tile_k": 32, "pipeline": "compv3"}
    assert config_from(short, PROBLEM, absent=ck_tile.CONV_KERNEL).name == "grouped_conv_forward_bf16_2d_16x64x32_compv3_intrawave"
    with pytest.raises(kscout.InvalidArgument, match=r"absent=\) has no key 'Di'"):
        problem_from(GEMM_ROW, absent=ck_tile.CONV_3D)
    with pytest.raises(TypeError):
        ck_tile.GEMM["split_k"] = 2


@pytest.mark.parametrize(
    "row, words",
    [
        ({**GEMM_ROW, "lyout": "rcr"}, r"a GEMM has no key 'lyout'; did you mean 'layout'\? \(allowed: m \(or M\)"),
        ({**GEMM_ROW, "batch": 2}, "a GEMM has no key 'batch'"),
        ({**GEMM_ROW, "M": 16}, "both 'm' and 'M'"),
        ({**WHOLE_ROW, "Ho": 28}, "a convolution has no key 'Ho'"),
        ({**WHOLE_ROW, "m": 28}, "a convolution has no key 'm'"),
        ({**WHOLE_ROW, "direction": "fwd"}, "both 'variant' and 'direction'"),
        ({**WHOLE_ROW, "variant": "backward"}, "variant 'backward' must be one of forward, fwd, bwd_data, bwd_weight, bwdd, bwdw"),
        ({**WHOLE_ROW, "Di": 8}, "has no axis d"),
        ({**GEMM_ROW, "m": "16"}, "m='16' must be an int, not str"),
        ({**GEMM_ROW, "m": 16.0}, "m=16.0 must be an int, not float"),
        ({**GEMM_ROW, "k": True}, "k=True must be an int, not bool"),
        ({**GEMM_ROW, "n": None}, "n=None must be an int, not NoneType"),
        ({**GEMM_ROW, "dtype": 8}, "dtype=8 must be a str, not int"),
        ({**GEMM_ROW, "dtype": "fp9"}, "did you mean 'fp"),
        ({**GEMM_ROW, "split_k": 0}, "split_k=0 must be at least 1"),
        ({}, "a GEMM lacks the required m"),
    ],
)
def test_a_wrong_row_is_refused_with_its_reason(row, words):
    with pytest.raises(kscout.InvalidArgument, match=words):
        problem_from(row)


def test_what_is_no_problem_or_kernel_is_a_type_error():
    with pytest.raises(TypeError, match="a problem is .*, not int"):
        problem_from(16)
    with pytest.raises(TypeError, match="a kernel is .*, not NoneType"):
        config_from(None, PROBLEM)


def test_whole_rows_are_kernels():
    gemm = problem_from(GEMM_ROW)
    assert config_from(GEMM_KERNEL, gemm).name == GEMM_NAME
    assert config_from(CONV_KERNEL, PROBLEM).name == CONV_NAME
    assert config_from({**without(CONV_KERNEL, "scheduler"), "wave_mode": "interwave"}, PROBLEM).name == CONV_NAME
    assert config_from({**CONV_KERNEL, "has_dsb": np.int64(0), "has_si": np.True_}, PROBLEM).name == CONV_NAME.replace("dsb", "si")
    for form in CONV_NAME, {"kernel_name": CONV_NAME}, {"name": CONV_NAME}, kscout.Config(CONV_NAME):
        assert config_from(form, PROBLEM) == kscout.Config(CONV_NAME)


def test_ck_tiles_columns_are_kernels():
    rest = without(CONV_KERNEL, "tile_m", "tile_n", "tile_k")
    for tile in FIRST_TILE, LATER_TILE, {**LATER_TILE, "block_size": 256}:
        assert config_from({**rest, **tile}, PROBLEM).name == CONV_NAME
        assert config_from({"kernel_name": CONV_NAME, **rest, **tile}, PROBLEM).name == CONV_NAME
    older = "grouped_conv_forward_bf16_2d_16x64x32_compv3"  # says neither scheduler nor flags
    row = {"kernel_name": older, **FIRST_TILE, "pipeline": "compv3", "wave_mode": "intrawave", "has_dsb": 0, "has_si": 0}
    assert config_from(row, PROBLEM).name == older
    assert config_from({"kernel_name": FULL_NAME, **LATER_TILE, "block_size": 256}, PROBLEM).name == FULL_NAME
    mem = GEMM_NAME.replace("compv3", "mem")
    row = {**GEMM_KERNEL, "kernel_name": mem, "pipeline": "mem"}
    assert config_from(row, problem_from(GEMM_ROW))["pad_m"] == 1, "pipeline mem pads whatever a row says"


@pytest.mark.parametrize(
    "kernel, words",
    [
        ({**CONV_KERNEL, "has_dsb": "False"}, "has_dsb='False' must be a bool, or 0 or 1, not str"),
        ({**CONV_KERNEL, "has_si": 2}, "has_si=2 must be a bool"),
        ({**CONV_KERNEL, "tile_m": "16"}, "tile_m='16' must be an int"),
        ({**CONV_KERNEL, "wave_mode": "interwave"}, "both 'scheduler' and 'wave_mode'"),
        ({**CONV_KERNEL, "pipeline": "compv"}, "compv"),
        ({"kernel_name": CONV_NAME, "tile_m": 32}, "tile_m=32, but 'grouped_conv_.*' says 16"),
        ({"kernel_name": CONV_NAME, "wave_mode": "intrawave"}, "scheduler='intrawave', but .* says 'interwave'"),
        ({"kernel_name": CONV_NAME, "tile_mm": 4}, "a convolution's kernel has no key 'tile_mm'"),
        ({"kernel_name": "a label", "N": 4}, "a label"),
        ({**CONV_KERNEL, "dtype": "fp16"}, "dtype='fp16', but the problem has 'bf16'"),
        ({**CONV_KERNEL, "direction": "bwd_data"}, "direction='bwd_data', but the problem has 'conv_fwd'"),
        ({"block_size": 16, "gemm_m_per_block": 64}, "no 'gemm_n_per_block'"),
        ({**CONV_KERNEL, **FIRST_TILE}, "both 'tile_m' and 'block_size'"),
        ({**LATER_TILE, "block_size": 128}, "block_size=128 threads need the waves"),
        ({"kernel_name": FULL_NAME, **LATER_TILE, "block_size": 128}, "block_size=128, but .* has 256 threads"),
        ({"kernel_name": None}, "kernel_name=None must be a str"),
        ({}, "lacks the required tile_m"),
    ],
)
def test_a_wrong_kernel_is_refused_with_its_reason(kernel, words):
    with pytest.raises(kscout.InvalidArgument, match=words):
        config_from(kernel, PROBLEM)


def test_the_adapter_has_ck_tiles_methods_and_milliseconds():
    theirs = ck_tile.Predictor(FOLDER, absent_problem={**ck_tile.CONV_2D, "dtype": "bf16", "variant": "forward"})
    ours = kscout.Predictor(FOLDER)
    kernel = {"kernel_name": NAMES[0]}
    assert theirs.predict_tflops(ROW, kernel) == ours.predict_tflops(PROBLEM, NAMES[0])
    assert theirs.predict_latency(ROW, kernel) == pytest.approx(ours.predict_latency_us(PROBLEM, NAMES[0]) / 1000)
    assert theirs.predict_bandwidth(ROW, kernel) == ours.predict_bandwidth_gb_s(PROBLEM, NAMES[0])
    values = theirs.predict_all(ROW, kernel)
    assert list(values) == ["tflops", "latency_ms", "bandwidth_gb_s"]
    assert values["latency_ms"] == theirs.predict_latency(ROW, kernel)
    ranked = theirs.rank_kernels(ROW, [{"kernel_name": name} for name in NAMES])
    assert ranked == [(choice.name, choice.tflops) for choice in ours.rank_kernels(PROBLEM, NAMES)]
    assert theirs.select_best(ROW, NAMES) == ranked[0][0] and theirs.rank_kernels(ROW, []) == []
    with pytest.raises(TypeError, match="kernels is one dict, .* list"):
        theirs.rank_kernels(ROW, kernel)
    with pytest.raises(ValueError, match="no kernels"):
        theirs.select_best(ROW, [])


def test_the_adapter_returns_names_as_they_were_written_and_keeps_ties_in_order():
    twice = ["benchmark_" + NAMES[0], NAMES[0]]
    assert [name for name, _ in ck_tile.Predictor(FOLDER).rank_kernels(PROBLEM, twice)] == twice
    assert [name for name, _ in ck_tile.Predictor(FOLDER).rank_kernels(PROBLEM, twice[::-1])] == twice[::-1]


def test_whole_rows_of_tables_are_kernels_whatever_problem_they_were_measured_on():
    measured = {"op_type": "grouped_conv", "arch": "gfx950", "is_valid": True, "run_id": 0, "tflops": np.float64(3.5), "hw_num_cus": 256}
    other = {**WHOLE_ROW, "N": np.int64(1), "C": 3}
    assert config_from({**CONV_KERNEL, **measured, **other}, PROBLEM).name == CONV_NAME
    assert config_from({"kernel_name": CONV_NAME, **CONV_KERNEL, **measured, **other}, PROBLEM).name == CONV_NAME
    assert config_from({**GEMM_KERNEL, **measured, **GEMM_ROW, "m": 1}, problem_from(GEMM_ROW)).name == GEMM_NAME
    # A label in place of a name: the columns decide.
    assert config_from({"kernel_name": "k16_64x32", **CONV_KERNEL}, PROBLEM).name == CONV_NAME
    ranked = ck_tile.Predictor(FOLDER).rank_kernels(PROBLEM, [{"kernel_name": "k16_64x32", **CONV_KERNEL}])
    assert ranked[0][0] == "k16_64x32"


def test_the_adapter_has_no_defaults_of_its_own():
    with pytest.raises(kscout.InvalidArgument, match="lacks the required dilation_h, dilation_w, dtype, layout, variant"):
        ck_tile.Predictor(FOLDER).predict_tflops(ROW, NAMES[0])
    short = {"tile_m": 16, "tile_n": 64, "tile_k": 64, "pipeline": "compv3"}
    with pytest.raises(kscout.InvalidArgument, match="lacks the required scheduler"):
        ck_tile.Predictor(FOLDER).predict_tflops(PROBLEM, short)
    asked = ck_tile.Predictor(FOLDER, absent_kernel=ck_tile.CONV_KERNEL)
    assert asked.predict_tflops(PROBLEM, short) == asked.predict_tflops(PROBLEM, NAMES[0] + "_intrawave")


def test_milliseconds_of_a_ck_tile_folder_come_back_as_they_are(latency_folder):
    predictor = ck_tile.Predictor(latency_folder("grouped_conv"), schema="ck_conv_83")
    assert predictor.predict_latency(PROBLEM, NAMES[0]) == pytest.approx(0.25)
    assert predictor.predict_all(PROBLEM, NAMES[0]) == {"latency_ms": pytest.approx(0.25)}


def test_a_schema_from_a_file_has_the_folders_features(latency_folder, tmp_path):
    own = tmp_path / "own.toml"
    own.write_text(kscout.Schema("ck_conv_83").extended("own", {"rows_and_columns": "Hi * Wi"}).text())
    folder = latency_folder("grouped_conv", "rows_and_columns")
    assert kscout.Predictor(folder, schema=own).schema == "own"
    assert ck_tile.Predictor(folder, schema=str(own)).predict_latency(PROBLEM, NAMES[0]) == pytest.approx(0.25)
    with pytest.raises(kscout.InvalidArgument, match="rows_and_columns"):
        kscout.Predictor(folder, schema="ck_conv_83")
    with pytest.raises(kscout.NotFound, match="none.toml"):
        kscout.Predictor(folder, schema=tmp_path / "none.toml")
