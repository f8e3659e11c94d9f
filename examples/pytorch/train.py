"""Train a small network on several processes with DistributedDataParallel. All data is made here."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import runyard

dist.init_process_group("gloo")  # "nccl" on GPUs; addresses and ranks are in the environment
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
x = torch.rand(512, 2) * 2 - 1
y = (x[:, 0] * x[:, 1] > 0).float()  # are both signs the same?
data = TensorDataset(x, y)
loader = DataLoader(data, batch_size=32, sampler=DistributedSampler(data, seed=0))

model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for epoch in range(20):
    loader.sampler.set_epoch(epoch)
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(inputs).squeeze(1), labels)
        loss.backward()  # gradients are averaged over all processes here
        optimizer.step()
    right = ((model(x).squeeze(1) > 0).float() == y).float().mean().item()
    runyard.log({"loss": loss.item(), "accuracy": right}, step=epoch)

print(f"rank {rank} of {size}: accuracy {right:.2f}")
if rank == 0:
    os.makedirs("outputs", exist_ok=True)
    torch.save(model.module.state_dict(), "outputs/model.pt")
dist.destroy_process_group()
