"""Runs the verbs of the program `kscout` for training and evaluation, and reads its Parquet files as tables."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Union

from . import _program
from ._core import Conv, Gemm, Schema
from .errors import CorruptData, MissingPackage, NotFound

if TYPE_CHECKING:
    import pandas
    import pyarrow

PathLike = Union[str, "os.PathLike[str]"]


def _needs(module: str, extra: str) -> Any:
    """Imports a package that only some calls need."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackage(f"this needs the package {module} ({error}); pip install 'kscout[{extra}]'") from error


def _verified(file: str) -> str:
    """Returns the file's name. Raises CorruptData where its bytes do not match its checksum (docs/formats/dataset.md)."""
    mark = b"kscout checksum\n"
    with open(file, "rb") as stream:
        parquet = stream.read()
    footer = len(parquet) - 8 - int.from_bytes(parquet[-8:-4], "little")
    begin = footer - len(mark) - 4
    if begin < 0 or parquet[begin : footer - 4] != mark:
        return file  # written by an older version, or by another program
    if zlib.crc32(parquet[footer:], zlib.crc32(parquet[:begin])) != int.from_bytes(parquet[footer - 4 : footer], "little"):
        raise CorruptData(f"{file}: is damaged: its bytes do not match its checksum; restore it or measure again")
    return file


class Dataset:
    """Measurements in Parquet files of one device and provider, as `kscout sweep` and `dataset import` write them.

        data = Dataset("data/gemm_fp32_zen3-2c.held_out.parquet")
        frame = data.to_pandas()
        frame[frame.status == "ok"].groupby("config").tflops.max()

    One row is one (problem, config, pass); docs/formats/dataset.md lists the columns. Files are read on first use.
    """

    def __init__(self, *files: PathLike):
        self.files = [os.fspath(file) for file in files]
        for file in self.files:
            if not os.path.isfile(file):
                raise NotFound(f"{file}: no such dataset file")

    def to_arrow(self) -> pyarrow.Table:
        """All rows. `metadata()["units"]` holds the units of columns."""
        arrow, parquet = _needs("pyarrow", "lab"), _needs("pyarrow.parquet", "lab")
        files = [_verified(file) for file in self.files]
        try:
            return arrow.concat_tables([parquet.read_table(file, page_checksum_verification=True) for file in files])
        except (arrow.ArrowInvalid, OSError) as error:
            raise CorruptData(f"{', '.join(self.files)}: {error}") from error

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a data frame; unknown numbers are NaN."""
        _needs("pandas", "pandas")
        return self.to_arrow().to_pandas()

    def metadata(self) -> dict[str, Any]:
        """The first file's metadata: op, provider, device (its facts), provenance, units (of columns), ..."""
        raw = _needs("pyarrow.parquet", "lab").read_schema(_verified(self.files[0])).metadata or {}
        texts = {key.decode().removeprefix("kscout."): value.decode() for key, value in raw.items() if key.startswith(b"kscout.")}
        return {key: json.loads(text) if text[:1] in ("{", "[") else text for key, text in texts.items()}

    def problems(self) -> list[Gemm] | list[Conv]:
        """The distinct problems that were measured, in the order of the rows. All are of one class: a dataset has one operation."""
        table = self.to_arrow()
        plain = Gemm(1, 1, 1) if "m" in table.column_names else Conv(1, 1, 1, 1, 1, 1, 1)
        fields = list(plain.as_dict())
        rows = table.select(fields).group_by(fields, use_threads=False).aggregate([]).to_pylist()
        return [plain.replace(**row) for row in rows]

    def describe(self) -> list[dict[str, Any]]:
        """The output of `kscout dataset describe` for each file: rows by status, problems, which configs win."""
        return [_program.run("dataset", "describe", file) for file in self.files]

    def __repr__(self) -> str:
        return f"Dataset({', '.join(map(repr, self.files))})"


Data = Union[Dataset, PathLike, Iterable[PathLike]]


def _files(data: Data) -> list[str]:
    if isinstance(data, Dataset):
        return data.files
    if isinstance(data, (str, os.PathLike)):
        return [os.fspath(data)]
    return [os.fspath(file) for file in data]


@contextlib.contextmanager
def _schema_as_file(options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The options with a Schema in `schema` as the file that the program reads."""
    schema = options.get("schema")
    if not isinstance(schema, Schema):
        yield options
        return
    with tempfile.TemporaryDirectory(prefix="kscout_schema_") as folder:
        file = os.path.join(folder, "schema.toml")
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(schema.text())
        yield {**options, "schema": file}


def train(data: Data, out: PathLike, **options: Any) -> list[dict[str, Any]]:
    """Trains a model and writes its folder `out`; returns one row per target: trees, efficiency by cross-validation.

        kscout.train("train.parquet", "models/mine", targets=["relative"], folds=4)
        kscout.train("train.parquet", "models/mine", schema=kscout.Schema("gemm").extended("mine", {"k_per_m": "k / m"}))

    `options` are those of `kscout train`, with _ for -: targets, schema (a name, a file or a Schema), rules, folds, leaves,
    learning_rate, rounds, patience, threads (at most as many as processors), seed. The same call continues an interrupted
    training.
    """
    if isinstance(targets := options.get("targets"), (list, tuple)):
        options["targets"] = ",".join(targets)
    with _schema_as_file(options) as given:
        return _program.run("train", *_program.flags(data=_files(data), out=out, **given))


def evaluate(model: PathLike, data: Data, **options: Any) -> dict[str, Any]:
    """Compares the speed of a model's picks with the fastest measured configs of a dataset.

        kscout.evaluate("models/mine", "held_out.parquet")["efficiency"]["mean"]   # percent

    `options` are those of `kscout evaluate`, with _ for -: train_data, pool, target, in_sample, out, predictions_out.
    """
    return _program.run("evaluate", *_program.flags(model=model, data=_files(data), **options))


def tune(budget: float = 120, **options: Any) -> dict[str, Any] | list[dict[str, Any]]:
    """Does everything for this machine: measures for `budget` seconds, trains, evaluates on held-out sizes, installs the model.

        kscout.tune(budget=600)["installed"]     # False: the installed model is better, see ["why_not_installed"]

    With several operations (`op=["gemm", "conv_fwd"]`, `op="all"`), which share the budget, the result is a list.
    `options` are those of `kscout tune`, with _ for -: op, rules, layout, targets, folds, held_out, max_gflop, schema, seed, out, replace,
    restart.
    """
    with _schema_as_file(options) as given:
        return _program.run("tune", *_program.flags(budget=budget, **given))
