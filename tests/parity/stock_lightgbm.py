#!/usr/bin/env python3
"""Stock LightGBM reads the text that `kscout export --format lightgbm` makes of a model and predicts the same bits.

    stock_lightgbm.py UNIT_TRAIN PARITY_FOREST KSCOUT

UNIT_TRAIN writes a model folder that it trained, PARITY_FOREST reads the shipped models; both write rows with the scores of our own
tree walk (features, then the score, one row per line). Exit 77 = skipped: lightgbm or numpy cannot be imported.
"""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import types


def stand_in(name):
    """An empty module in place of one that LightGBM imports for data frames and sparse matrices, which this test does not use."""
    module = types.ModuleType(name)
    module.__path__ = []
    module.__getattr__ = lambda item: (lambda *_, **__: False) if item.startswith("is") else type(item, (), {})
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)


for missing in ("narwhals", "narwhals.dependencies", "narwhals.typing", "scipy", "scipy.sparse"):
    if missing.partition(".")[0] in sys.modules or importlib.util.find_spec(missing) is None:
        stand_in(missing)
try:
    import lightgbm
    import numpy
except ImportError as error:
    print(f"skipped: {error}; ./dev setup installs it", file=sys.stderr)
    sys.exit(77)


MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models")


def run(program, test, **env):
    subprocess.run([program, f"--gtest_filter={test}"], env=dict(os.environ, **env), check=True, stdout=subprocess.DEVNULL)


def check(folder, target, rows_file):
    """The model's exported text gives each row its score."""
    text = subprocess.run([sys.argv[3], "export", "--model", folder, "--format", "lightgbm", "--target", target],
                          check=True, capture_output=True, text=True).stdout
    booster = lightgbm.Booster(model_str=text)
    with open(f"{folder}/feature_spec.json", encoding="utf-8") as file:
        assert booster.feature_name() == json.load(file)["feature_names"], booster.feature_name()
    with open(f"{folder}/train_manifest.json", encoding="utf-8") as file:
        assert booster.num_trees() == json.load(file)["targets"][target]["trees"], booster.num_trees()
    rows = numpy.loadtxt(rows_file, ndmin=2)
    scores = booster.predict(rows[:, :-1])
    assert len(scores) > 100 and len(set(scores)) > 20
    assert (scores == rows[:, -1]).all(), abs(scores - rows[:, -1]).max()
    print(f"{os.path.basename(folder)}, {target}: {booster.num_trees()} trees, {len(scores)} scores equal bit for bit")


def main():
    with tempfile.TemporaryDirectory() as folder:
        run(sys.argv[1], "Train.FolderHoldsWhatItShould", KSCOUT_KEEP_MODEL=folder)
        with open(f"{folder}/model/feature_spec.json", encoding="utf-8") as file:
            targets = json.load(file)["targets"]
        assert len(targets) == 2, targets
        for target in targets:
            check(f"{folder}/model", target, f"{folder}/rows_{target}.txt")
    with tempfile.TemporaryDirectory() as folder:
        run(sys.argv[2], "ShippedModels.*", KSCOUT_KEEP_ROWS=folder)
        files = sorted(os.listdir(folder))
        assert len(files) >= 6, files
        for name in files:
            model, target, _ = name.rsplit(".", 2)
            check(os.path.join(MODELS, model), target, os.path.join(folder, name))


main()
