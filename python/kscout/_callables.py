"""Runs the callables of a Family for `kscout sweep`: makes arguments, compiles, times and compares results.

The program plans, keeps the journal and decides what is timed when; this module answers its requests, one JSON object per
line (docs/formats/callables.md). It needs the standard library only, and PyTorch for a family on a GPU.
"""

from __future__ import annotations

import ctypes
import gc
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from types import SimpleNamespace
from typing import Any

from . import _program
from .errors import DeviceFailure, Unsupported

_MIN_FLUSH_BYTES = 32 << 20


class Settings(dict):
    """The values of a config's axes, by name; also attributes: `config.block_m`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the config has no axis '{name}'; it has {', '.join(self)}") from None


def reason(what: str, error: BaseException) -> str:
    """One line that names the callable and its error."""
    text = " ".join(str(error).split())
    return f"{what} raised {type(error).__name__}{': ' if text else ''}{text[:400]}"


# ---- Clocks.


class CpuClock:
    """Times calls by the processor's clock. A cold call finds caches that hold other data."""

    def __init__(self) -> None:
        try:
            last_level = os.sysconf("SC_LEVEL3_CACHE_SIZE")
        except (ValueError, OSError):
            last_level = 0
        self._zeros = bytes(max(_MIN_FLUSH_BYTES, 2 * last_level))
        self._other: bytearray | None = None

    def time_us(self, call: Any, calls: int, cold: bool) -> tuple[float, Any]:
        if cold:
            if self._other is None:
                self._other = bytearray(len(self._zeros))
            self._other[:] = self._zeros
        begin = time.perf_counter_ns()
        for _ in range(calls):
            result = call()
        return (time.perf_counter_ns() - begin) / 1e3 / calls, result

    def usable(self) -> bool:
        return True


class CudaClock:
    """Times calls between two events of the current stream.

    A cold call comes right behind a kernel that fills the level-2 cache: while this one runs, Python queues the call, so that
    the time between the events has no launch cost.
    """

    def __init__(self) -> None:
        import torch

        self._torch = torch
        cache = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0)
        self._other = torch.empty(max(256 << 20, 4 * cache), dtype=torch.int8, device="cuda")
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def time_us(self, call: Any, calls: int, cold: bool) -> tuple[float, Any]:
        if cold:
            self._other.zero_()
        self._begin.record()
        for _ in range(calls):
            result = call()
        self._end.record()
        self._end.synchronize()
        return self._begin.elapsed_time(self._end) * 1e3 / calls, result

    def usable(self) -> bool:
        """False once a kernel has broken the device for this process."""
        try:
            self._torch.cuda.synchronize()
        except RuntimeError:
            return False
        return True


def clock_of(device: str) -> CpuClock | CudaClock:
    return CpuClock() if device == "cpu" else CudaClock()


# ---- Comparing.


def _parts(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _is_tensor(value: Any) -> bool:
    return "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor)


def poison(result: Any) -> None:
    """Fills an earlier result, so that a config which writes nothing does not seem right."""
    for part in _parts(result):
        if _is_tensor(part):
            part.fill_(math.nan if part.is_floating_point() or part.is_complex() else 77)
        elif type(part).__module__ == "numpy" and hasattr(part, "fill") and part.flags.writeable:
            part.fill(math.nan if part.dtype.kind in "fc" else 77)


def _differences(result: Any, expected: Any) -> tuple[float, float, float, float, int]:
    """The largest difference, the largest value of the reference, both values there, and the position."""
    if _is_tensor(result):
        torch = sys.modules["torch"]
        wide = torch.float64 if result.dtype == torch.float64 else torch.float32
        got = result.detach().to(wide)
        want = torch.as_tensor(expected, device=got.device).to(wide)
        difference = (got - want).abs().nan_to_num(nan=math.inf, posinf=math.inf).reshape(-1)
        at = int(difference.argmax())
        scale = float(want.abs().max())
        return float(difference[at]), scale, float(got.reshape(-1)[at]), float(want.reshape(-1)[at]), at
    import numpy

    if _is_tensor(expected):
        expected = expected.detach().double().cpu().numpy()
    got = numpy.asarray(result).astype(numpy.float64).reshape(-1)
    want = numpy.asarray(expected).astype(numpy.float64).reshape(-1)
    with numpy.errstate(invalid="ignore"):
        difference = numpy.nan_to_num(numpy.abs(got - want), nan=math.inf, posinf=math.inf)
    at = int(difference.argmax())
    return float(difference[at]), float(numpy.abs(want).max()), float(got[at]), float(want[at]), at


def compare(result: Any, expected: Any, tolerance: float) -> tuple[float, str]:
    """The largest difference over its limit (`tolerance` times the reference's largest value), and where it is.

    At most 1 is right. Results of another shape or count are infinitely wrong.
    """
    results, wanted = _parts(result), _parts(expected)
    if result is None:
        return math.inf, "run returned None: return the result, which is compared with the reference"
    if len(results) != len(wanted):
        return math.inf, f"{len(results)} results, the reference has {len(wanted)}"
    worst, where = 0.0, ""
    for number, (got, want) in enumerate(zip(results, wanted)):
        shapes = tuple(getattr(got, "shape", ())), tuple(getattr(want, "shape", ()))
        if shapes[0] != shapes[1]:
            return math.inf, f"result {number} has shape {shapes[0]}, the reference {shapes[1]}"
        if 0 in shapes[0]:
            continue
        difference, scale, value, right, at = _differences(got, want)
        limit = tolerance * scale
        error = difference / limit if limit > 0 else (0.0 if difference == 0 else math.inf)
        if error > worst:
            worst, where = error, f"element {at} of result {number} is {value:g}, the reference has {right:g}; tolerance {limit:g}"
    return worst, where if not worst <= 1 else ""


# ---- The requests of one worker.

_compiling: Any = None  # the family, in a process that compiles


def _compile(values: list[int], problem: tuple[str, dict[str, Any]]) -> float:
    """Compiles one config; returns microseconds. Runs in a process of the pool."""
    begin = time.perf_counter_ns()
    _compiling.compile(_problem(*problem), _compiling._settings(values))
    return (time.perf_counter_ns() - begin) / 1e3


def _nothing() -> None:
    """The first task of the pool, which starts its processes."""


def _end_with_parent(number: int = signal.SIGKILL) -> None:
    """Makes this process get a signal when the one that forked it ends, however that happens."""
    set_parent_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(set_parent_signal, number)


def _problem(text: str, fields: dict[str, Any]) -> Any:
    """The problem for callables: a kscout.Problem, or its fields where the compiled part is not for this Python."""
    try:
        from . import _core
    except ImportError:
        return SimpleNamespace(**fields)
    kinds = {"gemm": _core.Gemm, "conv_fwd": _core.Conv}
    return kinds.get(text.split(":", 1)[0], _core.Problem)(text)


class Session:
    """Answers the requests of one worker."""

    def __init__(self, family: Any):
        self._family = family
        self._pool: Any = None
        if family.compile is not None and family.compile_jobs > 1:
            self._start_pool()
        self._clock: CpuClock | CudaClock | None = None
        self._asked: tuple[str, dict[str, Any]] = ("", {})
        self._compile_us: dict[tuple[int, ...], float] = {}

    def _start_pool(self) -> None:
        """Starts the processes that compile, before this one opens a device: they are forked from it."""
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        global _compiling
        _compiling = self._family
        context = multiprocessing.get_context("fork")
        self._pool = ProcessPoolExecutor(self._family.compile_jobs, context, initializer=_end_with_parent)
        self._pool.submit(_nothing).result()

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return getattr(self, "_" + request["do"])(request)
        except _Failure as failure:
            return failure.reply

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        family = self._family
        self._asked = request["problem"], request["fields"]
        self._compile_us = {}
        self._prepared: dict[tuple[int, ...], tuple[Settings, float]] = {}
        self._ran: set[tuple[int, ...]] = set()
        self._result = self._expected = self._arguments = None
        self._problem = _problem(*self._asked)
        if family.prepare is None:
            self._arguments = self._problem
        else:
            self._arguments = self._call("prepare", family.prepare, self._problem, unsupported=True)
        self._expected = self._call("reference", family.reference, self._arguments, unsupported=True)
        if self._clock is None:
            self._clock = clock_of(family.device)
        return {}

    def _compile(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compiles the configs side by side. One that needs longer than the limit is left out."""
        left_out = [""] * len(request["configs"])
        if self._pool is None:
            return {"left_out": left_out}
        from concurrent.futures import TimeoutError as TooLate

        keys = [tuple(values) for values in request["configs"]]
        jobs = {key: self._pool.submit(_compile, list(key), self._asked) for key in keys if key not in self._compile_us}
        end = time.monotonic() + request["seconds"]
        for i, key in enumerate(keys):
            if key not in jobs:
                continue
            try:
                self._compile_us[key] = jobs[key].result(max(0.0, end - time.monotonic()))
            except TooLate:
                jobs[key].cancel()
                left_out[i] = f"not compiled within {request['seconds']:g} s (compile_budget)"
            except Exception:  # noqa: BLE001: prepare compiles it again in this process and reports the error
                self._compile_us[key] = math.nan
        return {"left_out": left_out}

    def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        key = tuple(request["config"])
        if key not in self._prepared:
            config, setup_us = self._family._settings(key), 0.0
            if self._family.compile is not None:
                begin = time.perf_counter_ns()
                self._call("compile", self._family.compile, self._problem, config)
                here = (time.perf_counter_ns() - begin) / 1e3
                in_pool = self._compile_us.get(key, math.nan)
                setup_us = here if math.isnan(in_pool) else in_pool
            self._prepared[key] = config, setup_us
        return {"setup_us": self._prepared[key][1]}

    def _time(self, request: dict[str, Any]) -> dict[str, Any]:
        key = tuple(request["config"])
        run, config, arguments = self._family.run, self._prepared[key][0], self._arguments
        if key not in self._ran:
            self._ran.add(key)
            poison(self._result)
        collecting = gc.isenabled()
        gc.disable()
        try:
            us, self._result = self._call(
                "run", self._clock.time_us, lambda: run(config, arguments), request["calls"], request["cold"]
            )
        finally:
            if collecting:
                gc.enable()
        return {"us": us}

    def _check(self, _request: dict[str, Any]) -> dict[str, Any]:
        error, where = self._call("comparing the result", compare, self._result, self._expected, self._family.tolerance)
        return {"error": "inf" if math.isinf(error) else error, "where": where}

    def _call(self, what: str, callable_: Any, *arguments: Any, unsupported: bool = False) -> Any:
        """Calls the user's code; its error becomes the reply."""
        try:
            return callable_(*arguments)
        except Exception as error:
            refused = unsupported or isinstance(error, Unsupported) or type(error).__name__ == "OutOfResources"
            lost = self._clock is not None and not self._clock.usable()
            raise _Failure({"failed": reason(what, error), "unsupported": refused and not lost, "lost": lost}) from None


class _Failure(Exception):
    def __init__(self, reply: dict[str, Any]):
        super().__init__(reply["failed"])
        self.reply = reply


def serve(family: Any, connection: socket.socket) -> str:
    """Answers one worker until it ends. Returns why the device does not work for this process any more; "" when it does."""
    session = Session(family)
    with connection, connection.makefile("rb") as lines:
        for line in lines:
            reply = session.reply(json.loads(line))
            try:
                connection.sendall(json.dumps(reply).encode() + b"\n")
            except BrokenPipeError:
                break
            if reply.get("lost"):
                return reply["failed"]
    return ""


# ---- The sweep.


class _Child:
    """A forked process that serves one worker, and ends with it."""

    def __init__(self, family: Any, connection: socket.socket, listener: socket.socket):
        self._connection = connection
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of a BLAS: they survive a fork
            self._pid = os.fork()
        if self._pid == 0:
            status = 70
            try:
                _end_with_parent()
                listener.close()
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the sweep, which ends this process
                serve(family, connection)
                status = 0
            except BaseException:  # noqa: BLE001: the process ends here, whatever it was
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        self._poll = select.poll()
        self._poll.register(connection, select.POLLHUP | getattr(select, "POLLRDHUP", 0))

    def ended(self) -> bool:
        """Waits a moment. When one of the two has ended, ends the other."""
        worker_ended = bool(self._poll.poll(20))
        if not worker_ended and os.waitpid(self._pid, os.WNOHANG)[0] == 0:
            return False
        if worker_ended:
            self._end_process()
        self._connection.close()
        return True

    def _end_process(self) -> None:
        # Without work it ends by itself at once; a kernel that hangs does not.
        for _ in range(50):
            if os.waitpid(self._pid, os.WNOHANG)[0] != 0:
                return
            time.sleep(0.01)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _isolates(family: Any, isolate: bool | None) -> bool:
    torch = sys.modules.get("torch")
    open_device = torch is not None and torch.cuda.is_initialized()
    if isolate and family.device != "cpu" and open_device:
        raise Unsupported(
            "isolate=True: this process has opened the GPU, and a forked process could not use it; sweep before the first "
            "CUDA call, or leave isolate out"
        )
    return not (family.device != "cpu" and open_device) if isolate is None else isolate


def sweep(family: Any, declaration: str, words: list[str], isolate: bool | None, progress: bool) -> dict[str, Any]:
    """Runs `kscout sweep` with these words and serves its workers. Returns its summary."""
    forked = _isolates(family, isolate)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = os.path.join(folder, "callables")
        listener.bind(path)
        listener.listen(8)
        declared = os.path.join(folder, f"{family.name}.kscout-family.toml")
        with open(declared, "w", encoding="utf-8") as file:
            file.write(declaration)
        others = os.environ.get("KSCOUT_FAMILIES", "")
        with open(os.path.join(folder, "out"), "w+") as output, open(os.path.join(folder, "messages"), "w+") as messages:
            process = subprocess.Popen(
                [_program.PROGRAM, "sweep", *words, "--format", "json"],
                env={
                    **_program._environment(),
                    "KSCOUT_CALLABLES": path,
                    "KSCOUT_FAMILIES": ":".join(filter(None, [declared, others])),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=messages,
                preexec_fn=lambda: _end_with_parent(signal.SIGTERM),
            )
            try:
                _serve_all(family, process, listener, forked, messages if progress else None)
            finally:
                process.terminate()  # after an exception here: it closes its journal
                process.wait()
            output.seek(0)
            messages.seek(0)
            if process.returncode in (0, 1):
                return json.load(output)
            raise _program._error(process.returncode, messages.read())


def _serve_all(family: Any, process: Any, listener: socket.socket, forked: bool, messages: Any) -> None:
    """Serves one worker after the other until the program ends. Shows its messages where they are given."""
    child: _Child | None = None
    while process.poll() is None:
        if child is not None:
            if child.ended():
                child = None
        elif select.select([listener], [], [], 0.02)[0]:
            connection = listener.accept()[0]
            if forked:
                child = _Child(family, connection, listener)
            elif why := serve(family, connection):
                raise DeviceFailure(f"{why}; the device does not work for this process any more: the same sweep continues in another one")
        if messages is not None:
            messages.seek(messages.tell())
            sys.stderr.write(messages.read())
    while child is not None and not child.ended():
        pass
