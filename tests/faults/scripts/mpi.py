"""A sum over all ranks with mpi4py."""


def start(rank, chosen, fault, argument, mark):
    from mpi4py import MPI

    assert MPI.COMM_WORLD.Get_rank() == rank
    return MPI.COMM_WORLD.allreduce
