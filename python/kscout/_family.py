"""Kernels of one's own in Python: declares them, measures them, trains a model and selects."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Union

from . import _callables, _declaration, _program
from ._callables import Settings
from .errors import InvalidArgument, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._core import Problem

PathLike = Union[str, "os.PathLike[str]"]
AnyProblem = Union["Problem", str]

_declared: dict[str, str] = {}  # the declarations of this process by name: a provider stays until it ends


class Selection(NamedTuple):
    """A config for a problem, as a model or the family's default chose it."""

    config: Settings  # axis -> value; also attributes: selection.config.block_m
    time_us: float | None  # predicted
    name: str
    source: str  # "model", or what answers without one
    margin: float | None  # how much longer the next config takes, as a fraction


class _ByProgram:
    """Selects by the program `kscout predict`, in milliseconds: where the compiled part is not for this Python."""

    class _Choice(NamedTuple):
        config: Any
        time_us: float | None
        name: str
        source: str
        margin: float | None

    class _Config:
        def __init__(self, values: dict[str, Any]):
            self._values = values

        def as_dict(self) -> dict[str, Any]:
            return self._values

    def __init__(self, family: Family, model: str):
        self.model_path = model
        self._axes = family._axes
        self._pattern = re.compile(r".*__" + "_".join(rf"{axis.name}([a-z0-9_]+)" for axis in self._axes))

    def _choice(self, row: dict[str, Any]) -> _Choice:
        found = self._pattern.fullmatch(row["config"])
        values = {axis.name: text if axis.words else int(text) for axis, text in zip(self._axes, found.groups())}
        margin = row["margin_percent"]
        return self._Choice(
            self._Config(values), row["time_us"], row["config"], row["source"], None if margin is None else margin / 100
        )

    def rank(self, problem: Any, count: int) -> list[_Choice]:
        rows = _program.run("predict", str(problem), "--model", self.model_path, "--top", count)
        return [self._choice(row) for row in rows]

    def select(self, problem: Any) -> _Choice:
        return self.rank(problem, 1)[0]


class Family:
    """Kernels of one's own: axes, rules, and callables that run and verify a config.

        family = kscout.Family(
            "blocked", {"block": [16, 64, 256], "order": ["rows", "columns"]},
            prepare=lambda problem: (a, b),                    # the arguments of a problem
            run=lambda config, arguments: multiply(*arguments, config.block, config.order),
            reference=lambda arguments: arguments[0] @ arguments[1])
        family.sweep(problems, out="runs/blocked")             # continues where it was stopped
        family.train(out="models/blocked")
        family.select("gemm:512x512x512").config               # {'block': 64, 'order': 'rows'}

    `axes`: names and values, all whole numbers (or True and False) or all words. `configs`: a list of dicts (or
    triton.Config) in place of all combinations. `rules`: formulas over `c.<axis>` (in small letters), `d.<device fact>`,
    `s.<signature field>` and `p.<problem field>`; a config stays where all hold. A list, or a dict by name; a pair
    (formula, reason) states why. `formulas`: terms that rules without `p.` may use.

    `run(config, arguments)` returns the result: an array, a tensor or a tuple of them. It may write into arguments, not read an
    earlier result. `prepare(problem)` makes the arguments; without it they are the problem. `reference(arguments)` is
    computed once per problem. A result is wrong where it differs by more than `tolerance` times the reference's largest value.
    `compile(problem, config)` does what is not to be timed; with `compile_jobs` above 1, in as many processes at once.

    `device`: cpu, or cuda (PyTorch's current device). `traits`: what models read of a config, formulas over `c.`, `d.` and `s.`
    by trait; axes with usual names (block_m, num_stages, group_m, ...) need none. `default`: the config without a model.
    """

    def __init__(
        self,
        name: str,
        axes: Mapping[str, Sequence[int | bool | str]] | None = None,
        *,
        run: Callable[[Settings, Any], Any],
        reference: Callable[[Any], Any],
        prepare: Callable[[Any], Any] | None = None,
        compile: Callable[[Any, Settings], Any] | None = None,
        compile_jobs: int = 1,
        configs: Iterable[Any] | None = None,
        op: str = "gemm",
        device: str = "cpu",
        rules: Iterable[Any] | Mapping[str, Any] = (),
        formulas: Mapping[str, str] | None = None,
        traits: Mapping[str, str] | None = None,
        tolerance: float = 1e-3,
        default: Mapping[str, int | bool | str] | None = None,
        help: str | None = None,
    ):
        self.name = _declaration.check_name("family", name)
        allowed = {"device": (device, ("cpu", "cuda"))}
        with contextlib.suppress(ImportError):  # without the compiled part, the programs refuse the op
            from ._core import _op_words

            allowed["op"] = (op, _op_words())
        for word, (value, words) in allowed.items():
            if value not in words:
                raise InvalidArgument(f"{word}={value!r}: a family has one of {', '.join(words)}")
        for word, value, needed in (("run", run, True), ("reference", reference, True), ("prepare", prepare, False), ("compile", compile, False)):
            if not callable(value) and (needed or value is not None):
                raise InvalidArgument(f"{word}={value!r} is not callable; give a function")
        if not isinstance(tolerance, (int, float)) or not 0 <= tolerance < 1:
            raise InvalidArgument(f"tolerance={tolerance!r}: a fraction of the reference's largest value, from 0 and below 1")
        if not isinstance(compile_jobs, int) or compile_jobs < 1:
            raise InvalidArgument(f"compile_jobs={compile_jobs!r}: a number of processes, from 1")
        if compile_jobs > 1 and compile is None:
            raise InvalidArgument(f"compile_jobs={compile_jobs}: there is no compile; leave it out")
        self.op, self.device, self.tolerance = op, device, float(tolerance)
        self.run, self.reference, self.prepare, self.compile, self.compile_jobs = run, reference, prepare, compile, compile_jobs
        rows = None if configs is None else [_declaration.config_values(config) for config in configs]
        self._axes = _declaration.axes_of(axes, rows)
        for row in rows or []:
            _declaration.check_config(self._axes, row)
        self.axes = {axis.written: list(axis.values) for axis in self._axes}
        self._declaration = _declaration.declaration(
            name=name,
            op=op,
            help=help or f"configs of {name}",
            device=device,
            axes=self._axes,
            configs=rows,
            rules=_declaration.rules_of(self._axes, rules),
            formulas=_declaration.formulas_of(self._axes, formulas),
            traits=_declaration.traits_of(self._axes, traits, device),
            default=None if default is None else _declaration.check_config(self._axes, dict(default)),
        )
        self._swept: list[str] = []
        self._selector: Any = None  # a Selector, or what stands for it
        self._is_declared = False

    # ---- The declaration.

    def write(self, path: PathLike) -> str:
        """Writes the declaration, which the programs read from KSCOUT_FAMILIES. A folder gets `<name>.kscout-family.toml`."""
        file = os.fspath(path)
        if os.path.isdir(file):
            file = os.path.join(file, f"{self.name}.kscout-family.toml")
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(self._declaration)
        return file

    def _declare(self) -> Any:
        """The compiled part, which knows this family from now on."""
        from . import _core

        if not self._is_declared:
            if _declared.get(self.name, self._declaration) != self._declaration:
                raise InvalidArgument(f"this process has another family '{self.name}'; give one of them another name")
            _core._declare(self._declaration, f"kscout.Family('{self.name}')")
            _declared[self.name] = self._declaration
            self._is_declared = True
        return _core

    def _settings(self, numbers: Iterable[int]) -> Settings:
        """The config of these numbers, one per axis."""
        return Settings((axis.written, axis.value(number)) for axis, number in zip(self._axes, numbers))

    def _settings_from(self, config: Any) -> Settings:
        """The config of a kscout.Config."""
        values = config.as_dict()
        return Settings((axis.written, bool(values[axis.name]) if axis.flag else values[axis.name]) for axis in self._axes)

    def configs(self, problem: AnyProblem) -> list[Settings]:
        """The configs for a problem, as the rules admit them on this machine."""
        core = self._declare()
        device = "auto" if self.device == "cpu" else self.device
        found = core._kernels_for(problem, self.name, device, "default")
        return [self._settings_from(config) for config in found.applicable(problem)]

    # ---- Measuring.

    def sweep(
        self,
        problems: Iterable[AnyProblem] | PathLike,
        out: PathLike,
        *,
        cache: str | None = None,
        isolate: bool | None = None,
        progress: bool = False,
        timeout: float = 60,
        compile_budget: int = 600,
        **options: Any,
    ) -> dict[str, Any]:
        """Measures every config on every problem, and returns a summary: rows by status, reasons of failures, how it ended.

        Each result is kept at once in the folder `out`; the same call continues an interrupted sweep and measures nothing
        twice. A config that raises or computes something else is recorded with the reason, one that ends its process as
        crashed. `problems`: problems, texts such as "gemm:64x64x64:bf16:rrr", or a file of them.

        `cache`: warm or cold before each call; by default warm on the CPU, cold on a GPU. `isolate`: run callables in a forked
        process (the default, unless this process has opened the GPU): a crash then ends that process only. `timeout`: seconds
        for one config. `compile_budget`: seconds for compiling the configs of a problem. `options` are those of `kscout
        sweep`, with _ for -: budget (seconds), rounds, contenders, repeat, warmup, seed, max_configs, filter.
        """
        given = _program.flags(
            out=out,
            provider=self.name,
            backend=f"callables:{self.device}",
            cache=cache or ("warm" if self.device == "cpu" else "cold"),
            timeout=timeout,
            compile_budget=compile_budget,
            **options,
        )
        with tempfile.TemporaryDirectory() as folder:
            if isinstance(problems, (str, os.PathLike)):
                file = os.fspath(problems)
                if not os.path.isfile(file):
                    raise NotFound(f"problems={file!r}: no such file; give a list of problems, or a file of them")
            else:
                file = os.path.join(folder, "problems.txt")
                lines = [str(problem) for problem in problems]
                if not lines:
                    raise InvalidArgument("problems=[]: give at least one problem")
                with open(file, "w", encoding="utf-8") as stream:
                    stream.write("\n".join(lines) + "\n")
            summary = _callables.sweep(self, self._declaration, ["--problems", file, *given], isolate, progress)
        if os.fspath(out) not in self._swept:
            self._swept.append(os.fspath(out))
        return summary

    def _datasets(self, data: Any) -> list[str]:
        """Parquet files; a sweep's folder is written as `<folder>.parquet` first. Without `data`: this family's sweeps."""
        if data is None:
            data = self._swept
        elif isinstance(data, (str, os.PathLike)):
            data = [data]
        files = []
        for source in map(os.fspath, data):
            if os.path.isdir(source):
                file = source.rstrip("/") + ".parquet"
                _program.call("dataset", "import", source, "--out", file, quiet=True)
                source = file
            files.append(source)
        if not files:
            raise NotFound(f"nothing was measured: call {self.name}.sweep first, or give data=FOLDER of a sweep")
        return files

    # ---- Models.

    def train(self, out: PathLike, data: PathLike | Iterable[PathLike] | None = None, **options: Any) -> list[dict[str, Any]]:
        """Trains a model on sweeps (folders or Parquet files; by default those of this family), writes it and uses it.

        Returns one row per target, as kscout.train does. `options` are those of `kscout train`, with _ for -.
        """
        from ._lab import train

        rows = train(self._datasets(data), out, **options)
        self.load(out)
        return rows

    def evaluate(self, data: PathLike | Iterable[PathLike], model: PathLike | None = None, **options: Any) -> dict[str, Any]:
        """Compares the model's picks with the fastest measured configs of a sweep that training has not seen.

            family.evaluate("runs/held_out")["efficiency"]["mean"]   # percent
        """
        from ._lab import evaluate

        chosen = model if model is not None else self._loaded().model_path
        return evaluate(chosen, self._datasets(data), **options)

    def load(self, model: PathLike) -> None:
        """Uses a model that was trained on this family, such as one from another process or machine."""
        folder = os.fspath(model)
        if not os.path.exists(folder):
            raise NotFound(f"{folder}: no such model folder; train writes one")
        try:
            self._declare()
        except ImportError:
            self._selector = _ByProgram(self, folder)
            return
        from ._core import Selector

        self._selector = Selector.load(folder)

    def _loaded(self) -> Any:
        if self._selector is None:
            raise NotFound(f"{self.name} has no model: call train, or load a folder that train wrote")
        return self._selector

    def select(self, problem: AnyProblem) -> Selection:
        """The config to run, in microseconds, without running any. NotFound without a model."""
        return self._selection((self._selector or self._loaded()).select(problem))

    def rank(self, problem: AnyProblem, top: int = 5) -> list[Selection]:
        """The best configs, best first; fewer than `top` where fewer apply."""
        return [self._selection(choice) for choice in self._loaded().rank(problem, top)]

    def _selection(self, choice: Any) -> Selection:
        return Selection(self._settings_from(choice.config), choice.time_us, choice.name, choice.source, choice.margin)

    def __repr__(self) -> str:
        return f"<Family {self.name}: {self.op} on {self.device}, axes {', '.join(self.axes)}>"
