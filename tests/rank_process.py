"""One process of a living set: told on stdin what to do, line by line; answers on stdout.

    python tests/rank_process.py RANK SIZE PORT

The first rank is started with port 0, and answers with the one that the others are to be given. Then a line is JSON:
{"case": "tests.pipeline.runtime.cases:trains", "size": 2, "facts": {...}}. The first `size` ranks call the case's
function with their group and the facts. The answer is JSON too: {"value": ...} or {"error": "Traceback..."}.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import traceback
from importlib import import_module


def main() -> None:
    rank, size, port = map(int, sys.argv[1:])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a case prints is no answer
    import torch.distributed as dist
    from torch._C._distributed_c10d import TCPStore

    timeout = datetime.timedelta(seconds=60)
    store = TCPStore("127.0.0.1", port, size, is_master=rank == 0, wait_for_workers=False)
    if rank == 0:
        print(json.dumps({"port": store.port}), file=answers, flush=True)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timeout)
    groups = {some: dist.new_group(list(range(some))) for some in range(2, size + 1)}
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        summary = json.loads(line)
        module, _, name = summary["case"].partition(":")
        try:
            value = getattr(import_module(module), name)(groups.get(summary["size"]), **summary["facts"])
            answer = {"value": value}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)
        if "error" in answer:
            return  # others may wait for this rank; when its connections close, they fail as well


if __name__ == "__main__":
    main()
