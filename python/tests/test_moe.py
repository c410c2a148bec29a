"""Tables of mixture-of-experts layers: problems, rows between, and the whole way with a stand-in for the kernel."""

import json

import pytest

import kscout
from kscout import _program, moe

LAYER = moe.Layer(experts=8, intermediate=32, hidden=64, top_k=2)


def test_every_config_fits_and_the_defaults_are_among_them(tmp_path, monkeypatch):
    configs = moe.configs()
    assert len({tuple(config.values()) for config in configs}) == len(configs)
    assert all(default in configs for default in moe.ENGINE_DEFAULTS)
    monkeypatch.setenv("KSCOUT_FAMILIES", moe.family(LAYER).write(tmp_path))
    for device, kib, count in (("h200", 227, 390), ("a100", 163, 324)):
        kernels = ("kernels", "--provider", "fused_moe", "--op", "grouped_gemm", "--dtype", "bf16", "--layout", "rcr", "--device", device)
        rows = [{name: row[name.lower()] for name in moe.ENGINE_DEFAULTS[0]} for row in _program.run(*kernels)]
        assert len(rows) == count and all(default in rows for default in moe.ENGINE_DEFAULTS)
        for row in rows:
            assert 2 * row["num_stages"] * (row["BLOCK_SIZE_M"] + row["BLOCK_SIZE_N"]) * row["BLOCK_SIZE_K"] <= kib * 1024
    assert moe.engine_default(8, 8)["BLOCK_SIZE_M"] == 16 and moe.engine_default(9, 8)["BLOCK_SIZE_M"] == 64


def test_a_problem_routes_each_token_to_different_experts():
    head, layout = LAYER.problem(100).split("x64x64:")
    rows = [int(size) for size in head.split(":")[1].split("+")]
    assert layout == "bf16:rcr" and len(rows) == 8 and sum(rows) == 200 and max(rows) <= 100
    assert LAYER.problem(100) == LAYER.problem(100) != LAYER.problem(99)


@pytest.mark.parametrize(
    ("layer", "message"),
    [((0, 32, 64, 1), "experts=0"), ((8, 32, 64, 9), "top_k=9"), ((8, 33, 64, 2), "multiples of 16"), ((8, 32, 64.0, 2), "hidden=64.0")],
)
def test_a_layer_that_no_engine_has(layer, message):
    with pytest.raises(kscout.InvalidArgument, match=message):
        moe.Layer(*layer).check()


def test_rows_between_neighbours_whose_tiles_differ():
    small, large = moe.ENGINE_DEFAULTS
    other_depth = {**small, "BLOCK_SIZE_K": 128}
    assert moe._between({1: small, 16: other_depth, 32: large, 34: small, 64: small}) == [24]


def in_numpy():
    """A family with the axes of moe.family, whose kernels are NumPy's."""
    import numpy as np

    def prepare(problem):
        rows = sum(moe._rows(problem))
        return np.ones((rows, problem.k), np.float32), np.ones((problem.k, problem.n), np.float32)

    def run(config, arguments):
        a, b = arguments
        return np.concatenate([a[i : i + config.BLOCK_SIZE_M] @ b for i in range(0, len(a), config.BLOCK_SIZE_M)])

    return kscout.Family("fused_moe", configs=moe.configs(), op="grouped_gemm", prepare=prepare, run=run, reference=lambda both: both[0] @ both[1])


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moe")
    made = in_numpy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moe, "family", lambda layer, compile_jobs: made)
        how = {"keys": (1, 2, 4, 16), "device_name": "NVIDIA H200", "repeat": 1, "contenders": 0}
        first = moe.tune(LAYER, folder, **how)
        model = next(folder.glob("*/model"))
        second = moe.tune(LAYER, folder / "with_model", model, **how)
    return first, second


def test_a_table_has_rows_that_were_measured(tuned):
    for file in tuned:
        assert file.endswith("E=8,N=32,device_name=NVIDIA_H200.json")
        with open(file) as stream:
            table = json.load(stream)
        assert {"1", "2", "4", "16"} <= set(table) <= {"1", "2", "4", "10", "16"}
        assert all(row in moe.configs() for row in table.values())


def test_keys_that_make_no_table():
    with pytest.raises(kscout.InvalidArgument, match="ascending"):
        moe.tune(LAYER, "unused", keys=(4, 2))


def test_the_command_reports_errors(tmp_path, capsys):
    words = ["--experts", "8", "--intermediate", "32", "--hidden", "64", "--top-k", "9", "--out", str(tmp_path)]
    assert moe.main(words) == 2
    assert "top_k=9" in capsys.readouterr().err
