"""What all launchers share: a process's command, its log's name, and the variables that tell it where it is."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Sequence

from runyard.core.errors import SubmitRejected
from runyard.core.machine.gpus import NO_DEVICE, VISIBLE
from runyard.core.specs import MODULE, NodeSpec, RunSpec
from runyard.launchers.base import Placement

# Most shell scripts are bash's; an image without it has sh.
_BASH = 'exec "$(command -v bash || echo sh)" "$0" "$@"'
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)


def rank_variables(placement: Placement, *, rank: int, role: str = "worker") -> Dict[str, str]:
    """Return the variables of one process."""
    own = {"RUNYARD_RANK": str(rank), "RUNYARD_ROLE": role, "PWD": placement.work_folder}
    return {**placement.base_variables, **gpu_variables(placement.node.gpus), **own}


def process_argv(spec: RunSpec, interpreter: str, variables: Mapping[str, str]) -> List[str]:
    """Return what is executed: `sh -c` for a command, which expands its own variables, or the script with arguments."""
    if spec.command is not None:
        return ["/bin/sh", "-c", spec.command]
    if not spec.script:
        raise SubmitRejected(
            "The run has neither a script nor a command.",
            hint="Give ScriptRunConfig a `script`, a file of its source_directory, or a `command`.",
        )
    return [*_start(spec.script, interpreter), *(expand(argument, variables) for argument in spec.arguments)]


def _start(script: str, interpreter: str) -> List[str]:
    """Return the words that start a script, by its kind."""
    if script.startswith(MODULE):
        return [interpreter, "-m", script[len(MODULE) :]]
    if script.endswith(".ipynb"):
        return [interpreter, "-m", "runyard.runtime.notebook", script]
    if script.endswith(".sh"):
        return ["/bin/sh", "-c", _BASH, script]
    return [interpreter, script]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$NAME` and `${NAME}` by the process's own variables; an unknown name stays as it is."""
    return _VARIABLE.sub(lambda match: variables.get(match.group(1) or match.group(2), match.group(0)), text)


def process_log(rank: int) -> str:
    """Return the log of one of many processes, in Azure's words."""
    return f"user_logs/std_log_process_{rank:02d}.txt"


def gpu_variables(gpus: Sequence[str]) -> Dict[str, str]:
    """Return what shows a process these GPUs and no others; nothing when none were given out."""
    return {VISIBLE: ",".join(gpus)} if gpus else {}


def no_gpu() -> Dict[str, str]:
    """Return what hides all GPUs from a process that would only fill their memory."""
    return {VISIBLE: NO_DEVICE}


def job_variables(placement: Placement, *, processes: int) -> Dict[str, str]:
    """Return what every process of a job of several knows: its node and the others.

    Settings that a user may have made (interfaces, threads) are left alone where they were made. `processes` is how
    many of the job share this machine.
    """
    node = placement.node
    found = {
        **_defaults(placement, processes=processes),
        "NODE_RANK": str(node.rank),
        "AZUREML_NODE_COUNT": str(len(placement.nodes)),
        "AZ_BATCH_HOST_LIST": ",".join(one.address for one in placement.nodes),
        "AZ_BATCHAI_GPU_COUNT": str(sum(gpu != NO_DEVICE for gpu in node.gpus)),
        "RUNYARD_NODE_RANK": str(node.rank),
        "RUNYARD_NODE_NAME": node.name,
        "RUNYARD_NODE_ADDRESS": node.address,
        "RUNYARD_NODE_PORTS": ",".join(str(one) for one in ports_of(placement, node)),
    }
    if len(placement.nodes) > 1:
        found["HOSTNAME"] = node.name
    return found


def master_variables(placement: Placement) -> Dict[str, str]:
    """Return where the processes of a job meet, in the words of torch and of DeepSpeed's and other Azure scripts."""
    address, port = placement.nodes[0].address, str(ports_of(placement, placement.nodes[0])[0])
    return {
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "AZ_BATCH_MASTER_NODE": host_and_port(address, port),
        "AZ_BATCHAI_MPI_MASTER_NODE": address,
    }


def host_and_port(address: str, port: object) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def ports_of(placement: Placement, node: NodeSpec) -> List[int]:
    return placement.ports[node.rank]


def is_virtual(placement: Placement) -> bool:
    """Whether the nodes are parts of one machine: they meet on its loopback interface alone."""
    return all(node.address.startswith("127.") for node in placement.nodes)


def _defaults(placement: Placement, *, processes: int) -> Dict[str, str]:
    found: Dict[str, str] = {}
    if is_virtual(placement):
        found.update(GLOO_SOCKET_IFNAME="lo", NCCL_SOCKET_IFNAME="lo")
    elif placement.interface:
        # Gloo would look up the machine's own name, which on many is an address that no other machine reaches.
        found.update(GLOO_SOCKET_IFNAME=placement.interface)
    if placement.cores and processes > 1:
        # Each process would otherwise start a thread per core, which on a full machine is ten times as slow.
        found["OMP_NUM_THREADS"] = str(max(1, placement.cores // processes))
    return {name: placement.base_variables.get(name, value) for name, value in found.items()}
