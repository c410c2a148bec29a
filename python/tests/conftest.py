"""What the tests share."""

import os
from pathlib import Path

import pytest

import kscout


@pytest.fixture(scope="session")
def model():
    """A model of GEMMs on a CPU that came with the package, whichever that is."""
    return sorted((Path(kscout.__file__).parent / "models").glob("gemm_fp32_*/model.ksf"))[0].parent


@pytest.fixture(autouse=True)
def no_models_of_this_user(monkeypatch, tmp_path):
    """Tests see the models of the package only."""
    monkeypatch.setenv("XDG_DATA_HOME", os.fspath(tmp_path))
    monkeypatch.delenv("KSCOUT_MODEL_PATH", raising=False)
