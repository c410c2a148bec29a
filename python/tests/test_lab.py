"""Measurements, training and evaluation on a sweep of a few problems, made here."""

import os
import shutil
import subprocess
import sys
import time
import threading
from pathlib import Path

import pytest

import kscout
from kscout import Dataset, Gemm, _program


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A small dataset of this machine: 12 problems, the configs of rule set tiny."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "problems.txt").write_text("".join(f"gemm:{m}x{n}x32\n" for m in (1, 8, 17, 40) for n in (16, 48, 33)))
    measure = ["sweep", "--problems", folder / "problems.txt", "--rules", "tiny", "--repeat", "3", "--out", folder / "out"]
    collect = ["dataset", "import", folder / "out", "--out", folder / "data.parquet"]
    for words in (measure, collect):
        subprocess.run([_program.PROGRAM, *words], check=True, capture_output=True)
    return Dataset(folder / "data.parquet")


def test_a_dataset_is_a_table(data):
    table = data.to_arrow()
    assert data.metadata()["units"]["time_us"] == "us"
    assert set(data.problems()) == {Gemm(m, n, 32) for m in (1, 8, 17, 40) for n in (16, 48, 33)}
    frame = data.to_pandas()
    assert len(frame) == table.num_rows == data.describe()[0]["rows"]
    assert set(frame.config) <= set(kscout.kernels(rules="tiny").names())
    assert data.metadata()["device"]["name"] == kscout.Device().name


def test_problems_of_convolutions(tmp_path):
    text = "conv_fwd:1x64x8x8:64x1x1:bf16:nhwgc"
    table = tmp_path / "conv.csv"
    table.write_text(
        "kernel,problem_idx,N,C,K,G,Hi,Wi,Y,X,stride_h,stride_w,pad_h,pad_w,latency_ms,tflops,non_zero\n"
        "grouped_conv_forward_bf16_2d_16x64x64_compv3,0,1,64,64,1,8,8,1,1,1,1,0,0,0.010,1,1\n"
        "grouped_conv_forward_bf16_2d_32x64x64_compv5,0,1,64,64,1,8,8,1,1,1,1,0,0,0.008,1,1\n"
    )
    of_table = ["--from", "ck-csv", "--op", "conv_fwd", "--dtype", "bf16", "--device", "gfx950", "--out", tmp_path / "conv.parquet"]
    subprocess.run([_program.PROGRAM, "import", table, *of_table], check=True, capture_output=True)
    assert Dataset(tmp_path / "conv.parquet").problems() == [kscout.Conv(text)]


def test_a_folder_of_ck_tile_chooses_once_it_is_imported(tmp_path):
    table = tmp_path / "conv.csv"
    tiles = [f"{m}x64x{k}" for m in (16, 32, 64, 128) for k in (64, 128)]
    rows = [
        f"grouped_conv_forward_bf16_2d_{tile}_compv3,{p},1,{64 << p},64,1,16,16,1,1,1,1,0,0,{0.01 + 0.001 * ((p + i) % 8)},1,1\n"
        for p in range(6)
        for i, tile in enumerate(tiles)
    ]
    table.write_text("kernel,problem_idx,N,C,K,G,Hi,Wi,Y,X,stride_h,stride_w,pad_h,pad_w,latency_ms,tflops,non_zero\n" + "".join(rows))

    def run(verb, *words):
        subprocess.run([_program.PROGRAM, verb, *map(str, words)], check=True, capture_output=True, env=_program._environment())

    data, ours, theirs, model = (tmp_path / name for name in ("conv.parquet", "ours", "theirs", "model"))
    run("import", table, "--from", "ck-csv", "--op", "conv_fwd", "--dtype", "bf16", "--device", "gfx950", "--out", data)
    kscout.train(data, ours, schema="ck_conv_83", targets="tflops", folds=2, rounds=20)
    run("export", "--model", ours, "--format", "ck-model", "--out", theirs)
    run("import", theirs, "--from", "ck-model", "--kernels", table, "--out", model)
    problem = kscout.Conv("conv_fwd:1x192x16x16:64x1x1:bf16:nhwgc")
    names = [f"grouped_conv_forward_bf16_2d_{tile}_compv3" for tile in tiles]
    ranked = kscout.Selector.load(model).rank(problem, len(names))
    scored = kscout.Predictor(theirs).rank_kernels(problem, names)
    assert [choice.name for choice in ranked] == [choice.name for choice in scored] and ranked[0].decided_by == "model"
    assert [choice.tflops for choice in ranked] == pytest.approx([choice.tflops for choice in scored], rel=1e-12)


def test_a_model_is_trained_and_judged(data, tmp_path):
    model = tmp_path / "model"
    rows = kscout.train(data, model, targets=["relative"], folds=2, rounds=20, rules="tiny")
    assert [row["target"] for row in rows] == ["relative"]
    assert kscout.Selector.load(model).select(Gemm(8, 16, 32)).decided_by == "model"
    verdict = kscout.evaluate(model, data, in_sample=True)
    assert verdict["problems"] == 12 and 0 < verdict["efficiency"]["mean"] <= 100


def test_a_schema_is_text_and_trains_a_model(data, tmp_path):
    gemm = kscout.Schema("gemm")
    schema = gemm.extended("mine", {"k_per_m": "k / m", "rest": "p.m % t.inner_m"})
    assert schema.features == [*gemm.features, "k_per_m", "rest"] and (schema.name, schema.op, schema.provider) == ("mine", "gemm", "")
    assert kscout.Schema.parse(schema.text()) == schema != gemm and schema.hash != gemm.hash and "gemm" in kscout.Schema.names()
    (tmp_path / "mine.toml").write_text(schema.text())
    assert kscout.Schema.read(tmp_path / "mine.toml") == schema
    config = next(iter(kscout.kernels(rules="tiny", filter="c.kind == 'tiled'")))
    row = dict(zip(schema.features, schema.rows(Gemm(17, 48, 34), [config])[0]))
    assert row["m"] == 17 and row["k_per_m"] == 2 and row["rest"] == 17 % config["mr"]
    kscout.train(data, tmp_path / "model", schema=schema, targets=["relative"], folds=2, rounds=20, rules="tiny")
    assert kscout.Predictor(tmp_path / "model").schema == "mine"
    assert kscout.Selector.load(tmp_path / "model").select(Gemm(8, 16, 32)).decided_by == "model"
    with pytest.raises(kscout.InvalidArgument, match="'k_perm'.*did you mean|k_perm"):
        gemm.extended("wrong", {"a": "k_perm"})
    with pytest.raises(kscout.InvalidArgument, match="'a b' is no id"):
        gemm.extended("wrong", {"a b": "k"})
    with pytest.raises(kscout.CorruptData, match="mine.toml"):
        kscout.Schema.parse("name = 3", "mine.toml")
    with pytest.raises(kscout.InvalidArgument, match="did you mean 'gemm'"):
        kscout.Schema("gem")


def test_columns_of_functions_are_trained_and_evaluated_and_never_exported(data):
    asked = []

    def measured_speed(problem, config):  # what no formula knows: choices by it are perfect
        asked.append((str(problem), config.name))
        return speed.get((str(problem).split(":")[1], config.name), 0.0)

    frame = data.to_pandas()
    frame = frame[frame.status == "ok"].sort_values("pass")
    speed = {(f"{r.m}x{r.n}x{r.k}", r.config): r.tflops / best for r, best in zip(frame.itertuples(), frame.groupby(["m", "n", "k"]).tflops.transform("max"))}
    model = kscout.FunctionModel(data, {"speed": measured_speed}, schema=kscout.Schema("gemm"), folds=3, rounds=30)
    assert model.features[-1] == "speed" and len(model.features) == len(kscout.Schema("gemm").features) + 1
    assert model.efficiency["problems"] == 12 and len(asked) == len(set(asked)), "each pair is computed once"
    assert model.efficiency["mean"] > 90 and model.efficiency["mean"] >= model.efficiency_without["mean"]
    assert model.evaluate(data)["mean"] > 90
    with pytest.raises(kscout.Unsupported, match="columns speed are Python functions.*Schema"):
        model.export("header.h")
    with pytest.raises(kscout.InvalidArgument, match="'m' is a column of the data or a feature"):
        kscout.FunctionModel(data, {"m": measured_speed}, folds=3)
    with pytest.raises(kscout.InvalidArgument, match="no columns"):
        kscout.FunctionModel(data, {})


def test_what_a_program_refuses_is_of_its_class(data, tmp_path):
    with pytest.raises(kscout.NotFound, match="none.parquet"):
        Dataset("none.parquet")
    with pytest.raises(kscout.NotFound, match="nowhere"):
        kscout.evaluate(tmp_path / "nowhere", data)
    with pytest.raises(kscout.InvalidArgument, match="target"):
        kscout.train(data, tmp_path / "m", targets=["speed"])
    with pytest.raises(kscout.InvalidArgument, match="--leavs"):
        kscout.train(data, tmp_path / "m", leavs=3)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1")
    with pytest.raises(kscout.CorruptData):
        Dataset(broken).to_arrow()
    with pytest.raises(kscout.CorruptData):
        kscout.train(broken, tmp_path / "m")


def test_a_flipped_bit_is_an_error(data, tmp_path):
    whole = Path(data.files[0]).read_bytes()
    damaged = tmp_path / "damaged.parquet"
    for at in (200, len(whole) // 2, len(whole) - 40):
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        for read in (Dataset(damaged).to_arrow, Dataset(damaged).metadata):
            with pytest.raises(kscout.CorruptData, match="damaged.parquet: is damaged"):
                read()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    damaged.write_bytes(whole[: footer - 20] + whole[footer:])
    assert Dataset(damaged).to_arrow().equals(data.to_arrow()), "older files have no checksum"


def test_other_threads_run_while_a_program_works(data, tmp_path):
    turns, stop = [], threading.Event()

    def count():
        while not stop.is_set():
            turns.append(1)
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    try:
        kscout.train(data, tmp_path / "m", targets=["relative"], folds=2, rounds=20, rules="tiny")
    finally:
        stop.set()
        counter.join()
    assert len(turns) > 1


def test_the_program_looks_for_libraries_in_this_python(monkeypatch):
    monkeypatch.delenv("KSCOUT_PYTHON", raising=False)
    assert _program._environment()["KSCOUT_PYTHON"] == sys.executable
    monkeypatch.setenv("KSCOUT_PYTHON", "another")
    assert _program._environment()["KSCOUT_PYTHON"] == "another"


def test_without_a_package_the_message_says_what_to_install(data):
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import kscout\n"
        f"try: kscout.Dataset({data.files[0]!r}).to_arrow()\n"
        "except ImportError as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MissingPackage ") and "pip install 'kscout[lab]'" in done.stdout


def test_without_the_libraries_of_the_programs_the_error_names_the_packages(tmp_path, monkeypatch):
    """kscout-lab is here a program whose library is gone, as Arrow's is where pyarrow is not installed."""
    compiler = os.environ.get("CC", "cc")
    (tmp_path / "lab.c").write_text("int gone(void); int main(void) { return gone(); }\n")
    (tmp_path / "gone.c").write_text("int gone(void) { return 0; }\n")
    library = tmp_path / "libarrow_gone.so"
    subprocess.run([compiler, "-shared", "-fPIC", tmp_path / "gone.c", "-o", library], check=True)
    subprocess.run([compiler, tmp_path / "lab.c", library, "-o", tmp_path / "kscout-lab"], check=True)
    library.unlink()
    shutil.copy2(_program.PROGRAM, tmp_path / "kscout")
    monkeypatch.setattr(_program, "PROGRAM", tmp_path / "kscout")
    for call in (lambda: kscout.train("data.parquet", tmp_path / "model"), lambda: kscout.tune(1)):
        with pytest.raises(kscout.MissingPackage, match=r"needs .*libarrow_gone.so.*pip install .*pyarrow.*lightgbm") as caught:
            call()
        assert isinstance(caught.value, ImportError) and not isinstance(caught.value, kscout.DeviceFailure)


def test_several_operations_are_tuned_in_one_budget(tmp_path):
    options = {"rules": "tiny", "folds": 2, "targets": "relative", "max_gflop": 0.01}
    done = kscout.tune(4, op=["gemm", "conv_fwd"], out=tmp_path / "models", **options)
    assert [one["op"] for one in done] == ["gemm", "conv_fwd"]
    assert all(one["installed"] for one in done)
    single = kscout.tune(2, op="conv_bwd_weight", out=tmp_path / "one", **options)
    assert single["op"] == "conv_bwd_weight"
