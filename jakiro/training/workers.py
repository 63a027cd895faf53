"""The processes of a training run: one, or as many as `accelerate launch` or `torchrun` started.

A step is one global batch, however many processes there are: each takes its part of the rows and scales its loss so
that the mean of all processes' gradients, which DDP and FSDP take, is the gradient of the batch. What is drawn at
random is drawn for the whole batch by every process. So the curve does not depend on their number, but for what drops
out.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, InitProcessGroupKwargs
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict as whole
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from jakiro.models.loading import choose_kernels
from jakiro.training.optim import Optimizer

PATIENCE = timedelta(hours=12)  # with a process that others wait for: the main one makes rows alone
WHOLE = whole.StateDictOptions(full_state_dict=True, cpu_offload=True)


def start(device: str = "cpu") -> Accelerator:
    """This process's place among all. Raises ValueError for a device that is not here or that it does not get."""
    try:
        asked = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device is {device!r}; use cpu or cuda") from error
    own = {"mixed_precision": "no", "dynamo_backend": "no"}  # recipes say both, whatever accelerate is set up for
    patient = [InitProcessGroupKwargs(timeout=PATIENCE)]
    accelerator = Accelerator(cpu=asked.type == "cpu", kwargs_handlers=patient, **own)
    got = accelerator.device
    choose_kernels(got)
    if got.type != asked.type:
        raise ValueError(f"device is {device!r}, but here is only {got.type}: change --device")
    if asked.index not in (None, got.index or 0):
        raise ValueError(
            f"device is {device!r}, but training takes number {got.index or 0} of what it sees: use {asked.type!r}, "
            f"and set CUDA_VISIBLE_DEVICES={asked.index}"
        )
    return accelerator


def end(accelerator: Accelerator) -> None:
    """Part with the other processes; none ends while another still wants something of it."""
    accelerator.wait_for_everyone()
    gc.collect()  # what holds the group goes first: a thread of its that outlives Python aborts (pytorch issue 190489)
    accelerator.end_training()


def share(accelerator: Accelerator, rows: int) -> slice:
    """This process's part of the rows of a pass. Raises ValueError where they cannot be shared evenly."""
    count = accelerator.num_processes
    if rows % count:
        raise ValueError(
            f"the {rows} rows of a pass cannot be shared by {count} processes: change `rows` in the recipe"
        )
    each = rows // count
    return slice(accelerator.process_index * each, (accelerator.process_index + 1) * each)


def total(accelerator: Accelerator, values: Tensor) -> list[float]:
    """Sums over all processes of values [n], for what is reported."""
    return accelerator.reduce(values.detach().float(), "sum").tolist()


def clip(module: nn.Module) -> Tensor:
    """Scale the gradients of a prepared module so that their norm is at most 1; what it was, alike in all processes."""
    norm = nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def prepare(accelerator: Accelerator, module: nn.Module, shard: bool = False) -> nn.Module:
    """The module to call in training: averages gradients over the processes. Where `sharded`, each process holds but a
    part of parameters, gradients and what the optimizer remembers (FSDP2)."""
    module = module.to(accelerator.device).train()
    if sharded(accelerator, shard):
        mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))  # not of another device here
        return fully_shard(module, mesh=mesh)
    return accelerator.prepare_model(module)


def check_shard(accelerator: Accelerator, shard: bool) -> None:
    """Raise ValueError where sharding is asked for and there is nobody to share with."""
    if shard and accelerator.num_processes == 1:
        raise ValueError("--shard shares among processes, and here is one: use accelerate launch, or leave it out")


def sharded(accelerator: Accelerator, shard: bool) -> bool:
    """Whether `prepare` shards: where that is asked for, or accelerate is set up for it."""
    return shard or accelerator.distributed_type == DistributedType.FSDP


@contextmanager
def local(accelerator: Accelerator, module: nn.Module) -> Iterator[None]:
    """Within it gradients add up in each process, and are not exchanged until the next pass outside."""
    if isinstance(module, FSDPModule):
        module.set_requires_gradient_sync(False)
        yield
        module.set_requires_gradient_sync(True)
    else:
        with accelerator.no_sync(module):
            yield


def states(module: nn.Module, optimizer: Optimizer) -> tuple[object, object]:
    """What loop.py saves of a prepared module and its optimizer."""
    if isinstance(module, FSDPModule):
        return Whole(module), Whole(module, optimizer.parts)
    return unwrapped(module), optimizer


def parameters(module: nn.Module) -> dict[str, Tensor]:
    """A prepared module's own state dict, on the CPU. All processes must ask, the main one gets it."""
    if isinstance(module, FSDPModule):
        return Whole(module).state_dict()
    return {name: value.detach().cpu() for name, value in unwrapped(module).state_dict().items()}


def unwrapped(module: nn.Module) -> nn.Module:
    """The module that was prepared."""
    return getattr(module, "module", module)


class Whole:
    """The states of a sharded module as one process would have them, or by name of optimizers of it.

    Every process must ask for them.
    """

    def __init__(self, module: nn.Module, optimizers: list[torch.optim.Optimizer] | None = None) -> None:
        self.module, self.optimizers = module, optimizers

    def state_dict(self) -> dict:
        if self.optimizers:
            return whole.get_optimizer_state_dict(self.module, self.optimizers, options=WHOLE)
        return whole.get_model_state_dict(self.module, options=WHOLE)

    def load_state_dict(self, state: dict) -> None:
        if self.optimizers and "state" not in state:
            raise ValueError("this run began without --shard: go on so, or name another --run-folder")
        if self.optimizers:
            whole.set_optimizer_state_dict(self.module, self.optimizers, state, options=WHOLE)
        else:
            whole.set_model_state_dict(self.module, state, options=WHOLE)
