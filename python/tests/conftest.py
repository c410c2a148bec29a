"""What the tests share."""

import json
import os
from pathlib import Path

import pytest

import kscout


@pytest.fixture(scope="session")
def model():
    """A model of GEMMs on one CPU."""
    return Path(__file__).parents[2] / "tests/models/gemm_fp32_zen3-2c"


@pytest.fixture(scope="session")
def models():
    """The models that came with the package."""
    return Path(kscout.__file__).parent / "models"


@pytest.fixture(autouse=True)
def no_models_of_this_user(monkeypatch, tmp_path):
    """Tests see the models of the package only."""
    monkeypatch.setenv("XDG_DATA_HOME", os.fspath(tmp_path))
    monkeypatch.delenv("KSCOUT_MODEL_PATH", raising=False)


@pytest.fixture
def latency_folder(tmp_path):
    """Makes a folder without model.ksf whose one model says 0.25, in the unit that a trainer's `op_type` stands for."""
    tree = "num_leaves=2\nnum_cat=0\nsplit_feature=0\nsplit_gain=1\nthreshold=1\ndecision_type=2\nleft_child=-1\nright_child=-2\n"
    leaves = "leaf_value=0.25 0.25\nleaf_weight=1 1\nleaf_count=1 1\ninternal_value=0\ninternal_weight=0\ninternal_count=2\n"
    head = "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx=0\nobjective=regression\n"

    def make(op_type, feature="Hi"):
        names = f"feature_names={feature}\nfeature_infos=[1:64]\n"
        spec = {"op_type": op_type, "dtype": "bf16", "arch": "gfx950", "feature_names": [feature], "categorical_features": []}
        (tmp_path / "feature_spec.json").write_text(json.dumps({**spec, "targets": ["latency"], "log_targets": []}))
        one = f"Tree=0\n{tree}{leaves}is_linear=0\nshrinkage=1\n\n\n"
        text = f"{head}{names}tree_sizes={len(one)}\n\n{one}end of trees\n\nparameters:\nend of parameters\n"
        (tmp_path / "model_latency.lgbm").write_text(text)
        return tmp_path

    return make
