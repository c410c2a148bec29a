"""Sweeps and trains on many machines, on a cluster of dask.distributed.

    python -m kscout.dask sweep --scheduler tcp://head:8786 --out sweep --dataset data.parquet -- --problems llm --rules default
    python -m kscout.dask train --scheduler tcp://head:8786 --data a.parquet b.parquet --finish held_out.parquet --out models/mine

Needs the packages of `pip install 'kscout[dask]'` here and on the workers. docs/scaling.md shows how to start workers.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from . import _program
from ._lab import _needs
from .errors import Error, InvalidArgument


def client_of(scheduler: str) -> Any:
    """A client of the scheduler at an address, or of that in a file of `dask scheduler --scheduler-file`."""
    distributed = _needs("distributed", "dask")
    if scheduler.endswith(".json"):
        return distributed.Client(scheduler_file=scheduler)
    return distributed.Client(scheduler)


def workers_with(client: Any, resource: str) -> list[str]:
    """Addresses of the workers that have a resource."""
    # Not client.scheduler_info(): the client's own periodic question, about no workers, may overwrite the answer before it is returned.
    workers = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    found = [address for address, about in workers.items() if about.get("resources", {}).get(resource, 0) >= 1]
    if not found:
        raise InvalidArgument(f"no worker has the resource '{resource}': start workers with --nthreads 1 --resources \"{resource}=1\"")
    return found


def sweep(client: Any, out: str, words: list[str], *, shards: int = 0, resource: str = "kscout", interval_s: float = 1.0,
          arrived: Any = None) -> dict[str, Any]:  # fmt: skip
    """Sweeps the plan of `kscout sweep ...` on the workers with a resource, into the folder `out`; the same call continues.

    `shards`: parts of the plan, by default four for each worker. Returns rows and differences of the hosts.
    """
    from . import _dask_sweep as parts

    workers = workers_with(client, resource)
    shards = shards or parts.earlier_shards(out) or 4 * len(workers)
    coordinator = parts.Coordinator(client, workers, out, words, shards, resource, interval_s, arrived)
    coordinator.prepare()
    coordinator.run()
    hosts = coordinator.hosts()
    return {"shards": len(coordinator.shards), "rows": sum(shard.rows for shard in coordinator.shards), "hosts": hosts, "differences": parts.differences(hosts)}


def _sweep_command(options: argparse.Namespace) -> None:
    with client_of(options.scheduler) as client:
        result = sweep(client, options.out, options.words, shards=options.shards, resource=options.resource)
    print(json.dumps(result, indent=2))
    for difference in result["differences"]:
        print(f"note: {difference}", file=sys.stderr)
    if options.dataset:
        _program.call("dataset", "import", options.out, "--out", options.dataset)


def _train_command(options: argparse.Namespace) -> None:
    from . import _dask_train

    with client_of(options.scheduler) as client:
        _dask_train.train(client, options.data, options.finish, options.out, options.targets.split(","), options.rounds)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kscout.dask", description="sweeps and trains on a cluster of dask.distributed")
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("sweep", help="measure a plan on all workers", description="The words after -- are those of kscout sweep, without --out.")
    verb.add_argument("--scheduler", required=True, help="address, or the file of dask scheduler --scheduler-file")
    verb.add_argument("--out", required=True, help="folder of the sweep, here; the same command continues it")
    verb.add_argument("--dataset", help="Parquet file to write at the end")
    verb.add_argument("--shards", type=int, default=0, help="parts of the plan (default: four for each worker)")
    verb.add_argument("--resource", default="kscout", help="resource that the workers of this device have (default: kscout)")
    verb.add_argument("words", nargs="+", help="arguments of kscout sweep")
    verb.set_defaults(run=_sweep_command)
    verb = verbs.add_parser("train", help="train a model on data of more than one machine's memory")
    verb.add_argument("--scheduler", required=True, help="address, or the file of dask scheduler --scheduler-file")
    verb.add_argument("--data", required=True, nargs="+", help="datasets; a worker holds the features of some of the files")
    verb.add_argument("--finish", required=True, nargs="+", help="datasets for what is not trees: a sample that one machine holds")
    verb.add_argument("--out", required=True, help="model folder to write")
    verb.add_argument("--targets", default="relative,rank", help="what to learn: tflops, latency, bandwidth, relative, rank")
    verb.add_argument("--rounds", type=int, default=300, help="trees of each target")
    verb.set_defaults(run=_train_command)
    options = parser.parse_args(words)
    try:
        options.run(options)
    except Error as error:
        print(f"kscout.dask: {error}", file=sys.stderr)
        return {"invalid_argument": 2, "unsupported": 3}.get(error.code, 4)
    return 0


if __name__ == "__main__":
    sys.exit(main())
