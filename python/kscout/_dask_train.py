"""Trains the trees of a model with LightGBM on the workers of a dask.distributed cluster; `python -m kscout.dask train`.

Each dataset becomes the features of one partition, on one worker. What is not trees (candidates, calibration, confidence,
shortlist, region) comes from `kscout train --warm-start`, on datasets that one machine holds.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

from . import _program
from ._lab import _needs
from .errors import InvalidArgument


def partition_of(file: str, schema: str, features: list[str], labels: list[str]) -> tuple[Any, dict[str, Any], Any]:
    """The features of a dataset (rows x features), the labels of each target, and the number of rows of each problem."""
    import numpy
    from pyarrow import parquet

    with tempfile.TemporaryDirectory(prefix="kscout-") as folder:
        matrix = Path(folder) / "matrix.parquet"
        _program.call("features", "--data", file, "--schema", schema, "--out", matrix)
        table = parquet.read_table(matrix, columns=["problem", *labels, *features])
    rows = numpy.column_stack([table.column(name).to_numpy() for name in features])
    problems = table.column("problem").combine_chunks().dictionary_encode().indices.to_numpy()
    sizes = numpy.diff(numpy.flatnonzero(numpy.r_[True, problems[1:] != problems[:-1], True]))
    return rows, {label: table.column(label).to_numpy() for label in labels}, sizes


# Of a local training, and what LightGBM's trainers call them.
PARAMETERS = {
    "num_leaves": "num_leaves",
    "learning_rate": "learning_rate",
    "min_data_in_leaf": "min_child_samples",
    "feature_fraction": "colsample_bytree",
    "seed": "random_state",
}
GRADES = 31  # of target rank


def grow(client: Any, partitions: list[Any], target: str, spec: dict[str, Any], rounds: int) -> str:
    """The text of a model with `rounds` trees; `partitions` are futures of partition_of()."""
    array, delayed = _needs("dask.array", "dask"), _needs("dask", "dask").delayed
    trainers = _needs("lightgbm.dask", "dask")
    label = f"label_{target}"

    def joined(take: Any, columns: int | None, kind: str) -> Any:
        shapes = client.gather([client.submit(lambda part, take=take: len(take(part)), part) for part in partitions])
        parts = [client.submit(lambda part, take=take: take(part), part) for part in partitions]
        shaped = [(rows,) if columns is None else (rows, columns) for rows in shapes]
        return array.concatenate([array.from_delayed(delayed(part), shape, kind) for part, shape in zip(parts, shaped)])

    parameters = {theirs: spec["params"][ours] for ours, theirs in PARAMETERS.items()}
    if target == "rank":
        parameters.update(objective="lambdarank", label_gain=list(range(GRADES)))
    kind = trainers.DaskLGBMRanker if target == "rank" else trainers.DaskLGBMRegressor
    trainer = kind(client=client, n_estimators=rounds, verbosity=-1, **parameters)
    categorical = [spec["feature_names"].index(name) for name in spec["categorical_features"]]
    more = {"group": joined(lambda part: part[2], None, "i8")} if target == "rank" else {}
    features = joined(lambda part: part[0], len(spec["feature_names"]), "f8")
    labels = joined(lambda part, label=label: part[1][label], None, "f8")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Parameter n_jobs will be ignored")  # lightgbm.dask says so of its own default
        trainer.fit(features, labels, categorical_feature=categorical or "auto", **more)
    return trainer.booster_.model_to_string()


def train(client: Any, data: list[str], finish: list[str], out: str, targets: list[str], rounds: int) -> None:
    """Writes the model folder `out`: all but one of `rounds` trees of each target grow on `data`, the last one on `finish`."""
    if rounds < 2:
        raise InvalidArgument(f"--rounds {rounds}: give 2 or more; the last tree grows on the data of --finish")
    with tempfile.TemporaryDirectory(prefix="kscout-") as temporary:
        folder = Path(temporary)
        finishing = ["--data", *finish, "--targets", ",".join(targets), "--rounds", 1]
        _program.call("train", *finishing, "--out", folder / "plan")
        spec = json.loads((folder / "plan" / "feature_spec.json").read_text())
        labels = [f"label_{target}" for target in targets]
        partitions = [client.submit(partition_of, os.path.abspath(file), spec["schema"], spec["feature_names"], labels, pure=False) for file in data]
        trees = folder / "trees"
        trees.mkdir()
        shutil.copy(folder / "plan" / "feature_spec.json", trees)
        for target in targets:
            text = grow(client, partitions, target, spec, rounds - 1)
            (trees / f"model_{target}.lgbm").write_text(text)
        _program.call("train", *finishing, "--warm-start", trees, "--out", out)
