"""Importing is cheap: what only some calls need is loaded by those calls."""

import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import kscout
from kscout import errors


def test_import_loads_none_of_the_heavy_packages():
    code = "import sys, kscout; print([m for m in ('numpy', 'pandas', 'pyarrow', 'lightgbm') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_loaded_later_is_there_from_the_start():
    assert set(kscout.__all__) <= set(dir(kscout))
    assert kscout.rank_kernels is kscout._ranking.rank_kernels
    with pytest.raises(AttributeError, match="rank_kernel'"):
        kscout.rank_kernel


def test_everything_exported_exists_and_has_a_docstring():
    for name in kscout.__all__:
        assert getattr(kscout, name).__doc__, name


def test_stubs_name_what_the_extension_has():
    folder = Path(kscout.__file__).parent
    assert (folder / "py.typed").exists()
    with open(folder / "_core.pyi") as file:
        words = {token.string for token in tokenize.generate_tokens(file.readline)}
    missing = [name for name in dir(kscout._core) if not name.startswith("_") and name not in words]
    assert not missing


def test_there_is_one_class_per_error_code():
    assert set(errors.by_code) == set(kscout._core._error_codes)
    assert all(issubclass(kind, kscout.Error) and kind.code == code for code, kind in errors.by_code.items())


def test_the_installed_program_runs():
    command = [sys.executable, "-c", "from kscout._program import main; main()", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("kscout " + kscout.__version__)
