"""Searches for training parameters with Optuna, which is only needed here."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from ._lab import Data, PathLike, _needs, train


def search_parameters(data: Data, out: PathLike, trials: int = 30, *, seed: int = 42, **options: Any) -> dict[str, Any]:
    """Trains with `trials` sets of parameters, evaluates each by the efficiency of its choices out of fold, and writes the best
    model to `out`. Returns its parameters, its efficiency in percent, and all trials.

        kscout.search_parameters("train.parquet", "models/mine", trials=50, targets=["relative"])

    Searched: leaves, learning_rate, rounds. `options` are those of `kscout train` and stay fixed. The best of many trials looks
    better out of fold than it is: evaluate it on problems that were held out (`kscout.evaluate`). Needs the package optuna.
    """
    optuna = _needs("optuna", "tune")
    tried: list[dict[str, Any]] = []

    def efficiency(trial: Any) -> float:
        chosen = {
            "leaves": trial.suggest_int("leaves", 4, 255, log=True),
            "learning_rate": trial.suggest_float("learning_rate", 0.01, 0.3, log=True),
            "rounds": trial.suggest_int("rounds", 50, 2000, log=True),
        }
        with tempfile.TemporaryDirectory() as folder:
            rows = train(data, os.path.join(folder, "model"), **{**options, **chosen})
        best = max(row["efficiency_mean"] for row in rows)
        tried.append({**chosen, "efficiency_mean": best})
        return best

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(efficiency, n_trials=trials)
    rows = train(data, out, **{**options, **study.best_params})
    return {"parameters": study.best_params, "efficiency_mean": max(row["efficiency_mean"] for row in rows), "trials": tried}
