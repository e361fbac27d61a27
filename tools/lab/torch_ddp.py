"""Trains a small model with PyTorch's DistributedDataParallel on Gloo: ordinary code, which knows nothing of the fabric it runs on.

Environment: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, GLOO_SOCKET_IFNAME. Rank 0 writes --json FILE: iteration times, and every loss as
the exact bits of its value, so that two runs can be compared to the last one.
"""

import argparse
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 512
DEPTH = 4      # hidden layers: WIDTH * WIDTH parameters each
CLASSES = 16
BATCH = 8


def model(depth):
    layers = [layer for _ in range(depth) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))


def batch(rank, step):
    generator = torch.Generator().manual_seed(1 + rank * 100003 + step)
    return torch.randn(BATCH, WIDTH, generator=generator), torch.randint(CLASSES, (BATCH,), generator=generator)


def train(rounds, warmup, depth):
    """(seconds per timed iteration, losses as hexadecimal floats, wall clock at start and end of the timed part)"""
    rank = dist.get_rank()
    torch.manual_seed(20)
    network = DistributedDataParallel(model(depth))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    criterion = nn.CrossEntropyLoss()
    times, losses, started = [], [], 0.0
    for step in range(warmup + rounds):
        if step == warmup:
            dist.barrier()
            started = time.time()
        inputs, labels = batch(rank, step)
        before = time.monotonic()
        optimizer.zero_grad()
        loss = criterion(network(inputs), labels)
        loss.backward()
        optimizer.step()
        if step >= warmup:
            times.append(time.monotonic() - before)
        losses.append(float(loss.detach()).hex())
    return times, losses, started, time.time()


def digest(network_losses):
    """Every rank's losses on rank 0, so that all of them count."""
    gathered = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(network_losses, gathered, dst=0)
    return gathered


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--depth", type=int, default=DEPTH)
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    times, losses, started, ended = train(options.rounds, options.warmup, options.depth)
    everyone = digest(losses)
    if dist.get_rank() == 0 and options.json:
        with open(options.json + ".new", "w", encoding="utf-8") as out:
            json.dump({"schema": 1, "times_s": times, "losses": everyone, "started_s": started, "ended_s": ended}, out)
        os.replace(options.json + ".new", options.json)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
