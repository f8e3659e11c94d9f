"""A sum over all ranks without a framework: all send to rank 0, which answers."""

import json
import os
import socket
import struct
import time


def meeting_place():
    """Return address and port of the first rank, and how many ranks there are."""
    if "TF_CONFIG" in os.environ:
        cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
        address, _, port = cluster["worker"][0].partition(":")
        return address, int(port), sum(map(len, cluster.values()))
    return os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), int(os.environ["WORLD_SIZE"])


class Ranks:
    def __init__(self, rank):
        address, port, size = meeting_place()
        self.rank = rank
        if rank == 0:
            with socket.create_server((address, port)) as server:
                self.peers = [server.accept()[0] for _ in range(size - 1)]
        else:
            self.peers = [connect(address, port)]

    def allreduce(self, value):
        if self.rank == 0:
            total = value + sum(receive(peer) for peer in self.peers)
            for peer in self.peers:
                peer.sendall(struct.pack("d", total))
            return total
        self.peers[0].sendall(struct.pack("d", value))
        return receive(self.peers[0])


def connect(address, port):
    while True:
        try:
            return socket.create_connection((address, port))
        except ConnectionRefusedError:
            time.sleep(0.02)


def receive(peer):
    data = peer.recv(8)
    if not data:
        raise ConnectionResetError("Connection closed by peer")
    return struct.unpack("d", data)[0]


def start(rank, chosen, fault, argument, mark):
    return Ranks(rank).allreduce
