"""A sum over all ranks with torch.distributed on gloo."""

import os

import torch
import torch.distributed


def start(rank, chosen, fault, argument, mark):
    if fault == "port":
        os.environ["MASTER_PORT"] = argument
        if rank == chosen:
            mark()
    torch.distributed.init_process_group("gloo")

    def allreduce(value):
        tensor = torch.tensor([value])
        torch.distributed.all_reduce(tensor)
        return tensor.item()

    return allreduce
