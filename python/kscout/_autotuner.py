"""Stands in for triton.autotune: asks a family's model for the config, and times at most two."""

from __future__ import annotations

import inspect
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from ._callables import Settings, clock_of
from ._family import Family
from .errors import InvalidArgument

_SAMPLES = 5  # of each timed config, after one call that compiles


class TritonAutotuner:
    """A Triton kernel whose meta-parameters a model chooses; made by triton_autotuner. Launch it as a kernel: `tuned[grid](...)`."""

    def __init__(self, kernel: Any, family: Family, problem: Callable[..., Any], key: Sequence[str] | None, timed: int):
        self.kernel, self.family = kernel, family
        self.selected: dict[Any, Settings] = {}  # the config of each shape
        self._problem, self._key, self._timed = problem, key, timed
        names = getattr(kernel, "arg_names", None)
        self._names = list(names if names is not None else inspect.signature(getattr(kernel, "fn", kernel)).parameters)
        if unknown := [name for name in key or () if name not in self._names]:
            raise InvalidArgument(f"key: the kernel has no argument {', '.join(unknown)}; it has {', '.join(self._names)}")
        self._clock: Any = None

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *arguments, **keywords: self.run(*arguments, grid=grid, **keywords)

    def run(self, *arguments: Any, grid: Any, **keywords: Any) -> Any:
        """Launches the kernel with the config of this shape. The first launch of a shape selects it."""
        if taken := [name for name in self.family.axes if name in keywords]:
            raise InvalidArgument(f"{', '.join(taken)}: the family's axes are chosen by the model; leave them out of the call")
        named = dict(zip(self._names, arguments), **keywords)
        if self._key is not None:
            shape = tuple(named[name] for name in self._key)
        else:
            shape = self._problem(**named)
        config = self.selected.get(shape)
        if config is None:
            problem = shape if self._key is None else self._problem(**named)
            config = self.selected[shape] = self._choose(problem, lambda c: self.kernel[grid](*arguments, **keywords, **c))
        return self.kernel[grid](*arguments, **keywords, **config)

    def _choose(self, problem: Any, launch: Callable[[Settings], Any]) -> Settings:
        if self._timed == 1:
            return self.family.select(problem).config
        best = [selection.config for selection in self.family.rank(problem, self._timed)]
        if len(best) == 1:
            return best[0]
        if self._clock is None:
            self._clock = clock_of(self.family.device)
        for config in best:
            launch(config)  # compiles it
        samples: list[list[float]] = [[] for _ in best]
        for _ in range(_SAMPLES):  # interleaved: a change of clocks meets both
            for i, config in enumerate(best):
                samples[i].append(self._clock.time_us(lambda c=config: launch(c), 1, self.family.device != "cpu")[0])
        return min(zip(map(statistics.median, samples), range(len(best)), best))[2]

    def __getattr__(self, name: str) -> Any:
        if name == "kernel":
            raise AttributeError(name)
        return getattr(self.kernel, name)


def triton_autotuner(
    kernel: Any = None,
    family: Family | None = None,
    *,
    problem: Callable[..., Any] | None = None,
    key: Sequence[str] | None = None,
    timed: int = 2,
) -> Any:
    """A drop-in for triton.autotune: a family's model chooses the meta-parameters, in microseconds instead of seconds.

        @kscout.triton_autotuner(family=family, key=["M", "N", "K"],
                                 problem=lambda M, N, K, **_: f"gemm:{M}x{N}x{K}:bf16:rcr")
        @triton.jit
        def matmul(a, b, c, M, N, K, ..., BLOCK_M: tl.constexpr, ...): ...

        matmul[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)](a, b, c, M, N, K, ...)

    Also `tuned = kscout.triton_autotuner(matmul, family, problem=...)`. The family's axes are the meta-parameters; num_warps and
    num_stages may be among them. `problem`: makes the problem of a launch from its arguments, by name. `key`: names of the
    arguments that identify a shape; without it `problem` is called for every launch. `timed`: 2 also times the model's second
    choice at the first launch of a shape, which runs the kernel a few times (it must be repeatable); 1 times nothing.
    `tuned.selected` has the config of each shape. The family needs a model: train or load one first.
    """
    if family is None or not isinstance(family, Family):
        raise InvalidArgument(f"family={family!r}: give a kscout.Family with a model")
    if not callable(problem):
        raise InvalidArgument(f"problem={problem!r}: give a function of the kernel's arguments that returns a problem, such as "
                              "lambda M, N, K, **_: f'gemm:{M}x{N}x{K}:bf16:rcr'")  # fmt: skip
    if timed not in (1, 2):
        raise InvalidArgument(f"timed={timed!r}: 1 (no timing) or 2 (the best two of the model)")
    if kernel is None:
        return lambda decorated: TritonAutotuner(decorated, family, problem, key, timed)
    return TritonAutotuner(kernel, family, problem, key, timed)
