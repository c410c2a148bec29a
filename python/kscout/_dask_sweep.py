"""Sweeps one plan on the workers of a dask.distributed cluster; `python -m kscout.dask sweep` is its command.

A shard of the plan is a task: the program `kscout sweep --shard i/n` in a folder of the worker. The coordinator is the process
of the client. It hands each task the lines of the shard's journal that it has, and fetches new lines while they are written.
When a worker is lost, dask starts the task on another worker, where the shard continues with the collected lines.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import re
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from . import _program
from .errors import CorruptData, DeviceFailure, InvalidArgument

MANIFEST = "manifest.json"
SHARDS = "shards.json"
MOST_BYTES = 4 << 20  # of one journal in one answer
RESULT_S = 10
PATIENCE_S = 120  # without the coordinator; then a task stops


def journal_name(shard: int, shards: int) -> str:
    return "journal.log" if shards == 1 else f"journal-{shard}of{shards}.log"


# ------------------------------------------------------------------------------------------------------- on a worker


@dataclass
class _Run:
    """A shard that this process measures, or is about to."""

    token: str
    journal: queue.Queue[bytes] = field(default_factory=lambda: queue.Queue(1))
    file: Path | None = None  # None: waits for the journal
    asked: float = field(default_factory=time.monotonic)
    stop: threading.Event = field(default_factory=threading.Event)


_runs: dict[int, _Run] = {}
_started = 0
_prctl = ctypes.CDLL(None).prctl


def _end_with_parent() -> None:
    _prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _abandoned(run: _Run) -> bool:
    return run.stop.is_set() or time.monotonic() - run.asked > PATIENCE_S


def _received(run: _Run) -> bytes:
    while not _abandoned(run):
        try:
            return run.journal.get(timeout=0.05)
        except queue.Empty:
            continue
    raise DeviceFailure("the coordinator of the sweep has ended")


def _sweep(words: list[str], folder: str, run: _Run | None = None) -> None:
    """Runs `kscout sweep`; ends it with this process, and when the run is stopped."""
    with open(Path(folder) / "messages", "w+") as messages:
        program = subprocess.Popen(
            [_program.PROGRAM, "sweep", *words, "--out", os.path.join(folder, "sweep"), "--format", "json"],
            env=_program._environment(),
            stdout=subprocess.DEVNULL,
            stderr=messages,
            preexec_fn=_end_with_parent,
        )
        while program.poll() is None:
            try:
                program.wait(0.05)
            except subprocess.TimeoutExpired:
                if run and _abandoned(run):
                    program.terminate()
        if program.returncode not in (0, 1):  # 1: some rows failed
            messages.seek(0)
            raise _program._error(program.returncode, f"{socket.gethostname()}: {messages.read()}")


def make_manifest(words: list[str]) -> tuple[str, str]:
    """The host, and the manifest of the sweep as this worker plans it; measures nothing that stays."""
    with tempfile.TemporaryDirectory(prefix="kscout-") as folder:
        _sweep([*words, "--budget", "0.001"], folder)
        return socket.gethostname(), (Path(folder) / "sweep" / MANIFEST).read_text()


def measure_shard(shard: int, shards: int, words: list[str], manifest: str) -> bytes:
    """Measures a shard and returns its journal, which begins with what the coordinator handed over."""
    global _started
    _started += 1
    run = _runs[shard] = _Run(f"{socket.gethostname()}-{os.getpid()}-{_started}")
    try:
        with tempfile.TemporaryDirectory(prefix="kscout-") as folder:
            sweep = Path(folder) / "sweep"
            sweep.mkdir()
            (sweep / MANIFEST).write_text(manifest)
            journal = sweep / journal_name(shard, shards)
            begun = _received(run)
            if begun:
                journal.write_bytes(begun)
            run.file = journal
            _sweep([*words, "--shard", f"{shard}/{shards}"], folder, run)
            return journal.read_bytes()
    finally:
        _runs.pop(shard, None)


def look(known: dict[str, int]) -> tuple[str, dict[int, tuple[str, bytes | None]]]:
    """The host, and for each running shard its token and the whole lines after `known` bytes; None: waits for its journal."""
    answer: dict[int, tuple[str, bytes | None]] = {}
    for shard, run in list(_runs.items()):
        run.asked = time.monotonic()
        if run.file is None:
            answer[shard] = (run.token, None)
            continue
        try:
            with open(run.file, "rb") as file:
                file.seek(known.get(run.token, 0))
                lines = file.read(MOST_BYTES)
        except FileNotFoundError:  # not begun, or its task is ending
            continue
        if run.token in known:
            answer[shard] = (run.token, lines[: lines.rfind(b"\n") + 1])
    return socket.gethostname(), answer


def hand_over(shard: int, token: str, journal: bytes) -> None:
    run = _runs.get(shard)
    if run and run.token == token and run.file is None:
        run.journal.put_nowait(journal)


def stop_all() -> None:
    for run in list(_runs.values()):
        run.stop.set()


# -------------------------------------------------------------------------------------------------- the coordinator


@dataclass
class Shard:
    number: int
    file: Path
    bytes: int = 0  # whole lines in `file`
    rows: int = 0
    token: str = ""  # of the run whose lines count
    worker: str = ""
    parts: list[list[Any]] = field(default_factory=list)  # [host, first byte, last byte]


_ROW = re.compile(rb"^.{6}[a-z]\d+([a-zA-Z])(?:([^,\n]*),?([^,\n]*))?", re.M)
_CLOCK = re.compile(rb"^.{6}C[a-z]([0-9.]+)$", re.M)


class Coordinator:
    """Collects the journals of a sweep's shards in a folder, which `kscout` reads like that of a local sweep.

    `client`: a distributed.Client, or what stands in for it; `workers` plan the sweep, later ones join in measuring it.
    `arrived(shard)` is called after each answer with new rows.
    """

    def __init__(self, client: Any, workers: list[str], folder: os.PathLike[str] | str, words: list[str], shards: int,
                 resource: str = "kscout", interval_s: float = 1.0, arrived: Callable[[Shard], None] | None = None):
        self.client, self.workers, self.words, self.resource = client, workers, words, resource
        self.interval_s, self.arrived = interval_s, arrived
        self.folder = Path(folder)
        self.shards = [Shard(i, self.folder / journal_name(i, shards)) for i in range(1, shards + 1)]

    def prepare(self) -> None:
        """Makes the folder and the manifest, or continues those that are there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        about = self.folder / SHARDS
        mine = {"shards": len(self.shards), "words": self.words}
        if about.exists() and (there := json.loads(about.read_text())) != mine:
            raise InvalidArgument(f"{self.folder}: holds a sweep with other arguments: {there}; use another folder or the same arguments")
        manifest = self.folder / MANIFEST
        if not manifest.exists():
            plans = self.client.run(make_manifest, self.words, workers=self.workers)
            check_devices({host: json.loads(text)["device"]["name"] for host, text in plans.values()})
            about.write_text(json.dumps(mine))
            manifest.write_text(next(iter(plans.values()))[1])
        self.manifest = manifest.read_text()
        for shard in self.shards:
            if shard.file.exists():
                lines = shard.file.read_bytes()
                whole = lines[: lines.rfind(b"\n") + 1]
                if whole != lines:
                    shard.file.write_bytes(whole)
                shard.bytes, shard.rows = len(whole), len(_ROW.findall(whole))

    def run(self) -> None:
        """Measures all shards. Raises what a shard raises; the same call continues."""
        futures = {
            self.client.submit(measure_shard, shard.number, len(self.shards), self.words, self.manifest,
                               resources={self.resource: 1}, pure=False): shard
            for shard in self.shards
        }  # fmt: skip
        try:
            while futures:
                self.poll()
                for future in [f for f in futures if f.done()]:
                    try:
                        journal = future.result(timeout=RESULT_S)
                    except TimeoutError:  # its worker was lost with the result: the shard runs again, and wants its journal
                        continue
                    self.finish(futures.pop(future), journal)
                if futures:
                    time.sleep(self.interval_s)
        except BaseException:
            self.client.run(stop_all, on_error="ignore")
            raise

    def poll(self) -> int:
        """Fetches what the journals have grown by; returns the number of new rows."""
        known = {shard.token: shard.bytes for shard in self.shards if shard.token}
        new = 0
        for worker, answer in self.client.run(look, known, on_error="ignore").items():
            host, runs = answer
            for number, (token, lines) in runs.items():
                shard = self.shards[number - 1]
                if lines is None:
                    self.hand_over(shard, worker, host, token)
                elif token == shard.token and lines:
                    new += self.append(shard, lines)
        return new

    def hand_over(self, shard: Shard, worker: str, host: str, token: str) -> None:
        """Begins a run of the shard, here or anew: from now on only its lines count."""
        if token != shard.token:
            shard.token, shard.worker = token, worker
            shard.parts.append([host, shard.bytes, shard.bytes])
        journal = shard.file.read_bytes() if shard.bytes else b""
        self.client.run(hand_over, shard.number, token, journal, workers=[worker], on_error="ignore")

    def append(self, shard: Shard, lines: bytes) -> int:
        with open(shard.file, "ab") as file:
            file.write(lines)
        shard.bytes += len(lines)
        shard.parts[-1][2] = shard.bytes
        rows = len(_ROW.findall(lines))
        shard.rows += rows
        if rows and self.arrived:
            self.arrived(shard)
        return rows

    def finish(self, shard: Shard, journal: bytes) -> None:
        collected = shard.file.read_bytes() if shard.bytes else b""
        if not journal.startswith(collected):
            raise CorruptData(f"{shard.file}: the journal of shard {shard.number} does not continue the collected lines")
        if len(journal) > len(collected):
            self.append(shard, journal[len(collected) :])
        shard.token = ""

    def hosts(self) -> list[dict[str, Any]]:
        """What each host measured in this session: rows, share of noisy ones, median spread, median clock."""
        parts: dict[str, list[bytes]] = {}
        for shard in self.shards:
            if shard.parts:
                lines = shard.file.read_bytes()
                for host, begin, end in shard.parts:
                    parts.setdefault(host, []).append(lines[begin:end])
        return [summary_of(host, b"".join(lines)) for host, lines in sorted(parts.items())]


def summary_of(host: str, lines: bytes) -> dict[str, Any]:
    rows = _ROW.findall(lines)
    spreads = [float(spread) / 1000 for status, _, spread in rows if status in b"oO" and spread]
    clocks = [float(clock) for clock in _CLOCK.findall(lines)]
    return {
        "host": host,
        "rows": len(rows),
        "noisy": sum(status.isupper() for status, _, _ in rows) / len(rows) if rows else 0.0,
        "spread": statistics.median(spreads) if spreads else None,
        "clock_mhz": statistics.median(clocks) if clocks else None,
    }


CLOCK_DRIFT = 0.03
SPREAD_FACTOR = 2


def differences(hosts: list[dict[str, Any]]) -> list[str]:
    """Hosts whose clock or noise differs from that of the median host."""
    found = []
    for key, what, far in (
        ("clock_mhz", "clock", lambda value, usual: abs(value - usual) > CLOCK_DRIFT * usual),
        ("spread", "median spread", lambda value, usual: value > SPREAD_FACTOR * usual),
    ):
        known = [host[key] for host in hosts if host[key] is not None]
        if len(known) < 2:
            continue
        usual = statistics.median(known)
        found += [f"{host['host']}: {what} {host[key]:g}, of all hosts {usual:g}" for host in hosts if host[key] is not None and far(host[key], usual)]
    return found


def earlier_shards(folder: os.PathLike[str] | str) -> int:
    """The number of shards of the sweep in a folder; 0: there is none."""
    about = Path(folder) / SHARDS
    return json.loads(about.read_text())["shards"] if about.exists() else 0


def check_devices(device_of: dict[str, str]) -> None:
    """Raises InvalidArgument when the hosts that measure are not of one device."""
    host_with = {device: host for host, device in sorted(device_of.items(), reverse=True)}
    if len(host_with) > 1:
        listed = "; ".join(f"{device} on {host}" for device, host in sorted(host_with.items()))
        raise InvalidArgument(f"workers of several devices: {listed}; give the workers of each device a resource name of their own (--resource)")
