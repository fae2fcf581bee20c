# SPDX-License-Identifier: Apache-2.0
"""A small PyTorch program that trains for ever, as any does: it knows nothing of Tutti. --log gets a line for each step: its
number and the wall clock's nanoseconds before and after it; the step is an annotation of PyTorch's, too. --end makes it
end: its last annotations are "the end", PyTorch's and Tutti's, and "end" with the time is the log's last line. With
--device cuda a step ends when the device has done it all, and is in an NVTX range, too; each has a collective operation of NCCL."""
import argparse
import os
import signal
import sys
import time

import torch
import torch.distributed

from publish import free_port, publish


def on_device(train):
    """run(step): `train` with work for an NVIDIA device."""
    torch.distributed.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=1)
    total = torch.ones(1024, device="cuda")
    matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

    def run(step):
        with torch.cuda.nvtx.range(f"nvtx {step}"):
            train()
            for _ in range(4):
                torch.mm(matrix, matrix)
            torch.distributed.all_reduce(total)
            torch.cuda.synchronize()
    return run


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--port-file", required=True, help="gets PyTorch's version when 3 steps are done")
    args.add_argument("--seconds", type=float, default=60)
    args.add_argument("--log", required=True)
    args.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args.add_argument("--end", choices=("exit", "killed"), help="exit with 7, or be killed")
    args = args.parse_args()

    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch, labels = torch.randn(32, 64).to(args.device), torch.randint(0, 10, (32,)).to(args.device)

    def train():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch), labels).backward()
        optimizer.step()
    run = on_device(train) if args.device == "cuda" else lambda _: train()
    step = 0
    end = time.monotonic() + args.seconds
    with open(args.log, "w", buffering=1) as log:
        while time.monotonic() < end:
            if step == 3:
                publish(args.port_file, torch.__version__)
            begin_ns = time.time_ns()
            with torch.profiler.record_function(f"train {step}"):
                run(step)
            print(step, begin_ns, time.time_ns(), file=log)
            step += 1
            time.sleep(0.002)
        if args.end:
            with torch.profiler.record_function("the end"):
                model(batch)
            import tutti
            tutti.instant("the end")
            print("end", time.time_ns(), file=log)
    if args.end == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit(7 if args.end else 0)


main()
