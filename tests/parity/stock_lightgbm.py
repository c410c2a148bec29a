#!/usr/bin/env python3
"""The LightGBM files of a model folder are readable by stock LightGBM and mean the same there.

    stock_lightgbm.py UNIT_TRAIN

UNIT_TRAIN writes a model folder, and beside it rows with the scores that our own tree walk gives them (rows.txt: features, then the
score, one row per line). Exit 77 = skipped: lightgbm or numpy cannot be imported.
"""
import gzip
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


def main():
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, KSCOUT_KEEP_MODEL=folder)
        subprocess.run([sys.argv[1], "--gtest_filter=Train.FolderHoldsWhatItShould"], env=env, check=True, stdout=subprocess.DEVNULL)
        with open(f"{folder}/model/feature_spec.json", encoding="utf-8") as file:
            spec = json.load(file)
        with open(f"{folder}/model/train_manifest.json", encoding="utf-8") as file:
            manifest = json.load(file)
        for target in spec["targets"]:
            with gzip.open(f"{folder}/model/model_{target}.lgbm.gz", "rt") as file:
                booster = lightgbm.Booster(model_str=file.read())
            assert booster.feature_name() == spec["feature_names"], booster.feature_name()
            assert booster.num_trees() == manifest["targets"][target]["trees"], booster.num_trees()
            rows = numpy.loadtxt(f"{folder}/rows_{target}.txt", ndmin=2)
            scores = booster.predict(rows[:, :-1])
            assert len(scores) > 100 and len(set(scores)) > 20
            assert (scores == rows[:, -1]).all(), abs(scores - rows[:, -1]).max()
            print(f"{target}: {booster.num_trees()} trees, {len(scores)} scores equal bit for bit")


main()
