"""Trains and evaluates with columns that Python functions compute, to learn whether a feature helps before it is a formula."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Union

from . import _program
from ._core import Config, Conv, Gemm, Problem, Schema
from ._lab import Data, PathLike, _files, _needs, _schema_as_file
from .errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    import numpy
    import pandas

Column = Callable[[Union[Gemm, Conv, Problem], Config], float]
_PARAMETERS = {"objective": "regression", "num_leaves": 31, "learning_rate": 0.1, "feature_fraction": 0.8, "min_data_in_leaf": 10}


class FunctionModel:
    """A model whose features are those of a schema and columns that Python functions compute. It has no file.

        def rest(problem, config):
            return problem.m % (config["mr"] or 1)

        model = kscout.FunctionModel("train.parquet", {"rest": rest}, schema="gemm")
        model.efficiency, model.efficiency_without        # {"mean": 96.1, "p10": 90.4}: out of fold, percent; with and without them
        model.evaluate("held_out.parquet")                # the same of the picks for other problems

    A function gets the problem and the config of each measured row and returns a number (nan: missing). The target is the
    speed relative to the problem's best. `schema` is a Schema, a name or a file (None: the schema of `kscout train`), `folds`
    and `fold_by` are those of `kscout train`, `rounds` is the number of trees. Needs the packages lightgbm, pandas, pyarrow.

    A program, C++ and C cannot call the function, so export() is refused: write the feature as a formula (Schema.extended) and
    train with kscout.train.
    """

    def __init__(
        self,
        data: Data,
        columns: Mapping[str, Column],
        *,
        schema: Schema | str | None = None,
        folds: int = 5,
        fold_by: str = "sizes",
        rounds: int = 200,
        seed: int = 42,
    ):
        if not columns:
            raise InvalidArgument("no columns: without a function of yours, kscout.train makes a model that can be exported")
        self.columns, self.schema, self._rounds = dict(columns), schema, rounds
        self._parameters = {**_PARAMETERS, "seed": seed, "verbose": -1}
        rows = self._matrix(data, folds=folds, fold_by=fold_by)
        known = [name for name in rows.columns if name.startswith("label_") or name in _NO_FEATURES]
        self.features = [name for name in rows.columns if name not in known]
        self.efficiency = self._out_of_fold(rows, self.features)
        self.efficiency_without = self._out_of_fold(rows, [name for name in self.features if name not in self.columns])
        self._trees = self._grown(rows, self.features)

    def _matrix(self, data: Data, **options: Any) -> pandas.DataFrame:
        """The rows of a training, with the columns of the functions."""
        pandas, parquet = _needs("pandas", "pandas"), _needs("pyarrow.parquet", "lab")
        with tempfile.TemporaryDirectory(prefix="kscout_matrix_") as folder, _schema_as_file({"schema": self.schema, **options}) as given:
            file = os.path.join(folder, "matrix.parquet")
            _program.call("features", *_program.flags(data=_files(data), out=file, **given), quiet=True)
            rows = parquet.read_table(file).to_pandas()
        pairs = rows[["problem", "config"]].drop_duplicates()
        asked = [(Problem(problem), Config(config)) for problem, config in zip(pairs["problem"], pairs["config"])]
        for name, function in self.columns.items():
            if name in rows.columns:
                raise InvalidArgument(f"column '{name}' is a column of the data or a feature of the schema: give it another name")
            pairs[name] = [float(function(problem, config)) for problem, config in asked]
        return pandas.merge(rows, pairs, on=["problem", "config"], how="left", sort=False)

    def _grown(self, rows: pandas.DataFrame, features: list[str]) -> Any:
        lightgbm = _needs("lightgbm", "lab")
        data = lightgbm.Dataset(rows[features].to_numpy(), rows["label_relative"], weight=rows["row_weight"], feature_name=features)
        return lightgbm.train(self._parameters, data, self._rounds)

    def _out_of_fold(self, rows: pandas.DataFrame, features: list[str]) -> dict[str, float]:
        scores = rows["time_us"] * 0.0
        for fold in sorted(rows["fold"].unique()):
            held_out = rows["fold"] == fold
            scores[held_out] = self._grown(rows[~held_out], features).predict(rows.loc[held_out, features].to_numpy())
        return _efficiency(rows, scores)

    def evaluate(self, data: Data) -> dict[str, float]:
        """Efficiency of the picks among the measured configs of each problem, in percent: mean, p10, min, and `problems`."""
        rows = self._matrix(data)
        return _efficiency(rows, self._trees.predict(rows[self.features].to_numpy()))

    def export(self, *_: PathLike) -> NoReturn:
        """Refused, with the reason: Unsupported."""
        raise Unsupported(
            f"export: the columns {', '.join(self.columns)} are Python functions, which programs, C and C++ cannot call; write them as "
            "formulas, kscout.Schema(...).extended(...), and train with kscout.train(schema=...)"
        )


_NO_FEATURES = frozenset(("problem", "config", "fold", "time_us", "tflops", "raced", "calls", "row_weight"))


def _efficiency(rows: pandas.DataFrame, scores: numpy.ndarray) -> dict[str, float]:
    """Speed of the config with the highest score divided by the best measured speed, over problems."""
    best = rows.assign(score=scores).sort_values("score", ascending=False, kind="stable").groupby("problem", sort=False)["tflops"].first()
    percent = 100 * best / rows.groupby("problem")["tflops"].max()
    return {"mean": float(percent.mean()), "p10": float(percent.quantile(0.1)), "min": float(percent.min()), "problems": len(percent)}
