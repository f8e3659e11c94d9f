"""Speaks HTTP for all services of a server: who may call, queues, batches, routing by weights, limits, metrics.

May enter: the server's engine by the control socket, `serving/local.py` by command line. Loads: in the gateway's own
processes, under the server's interpreter. It never imports or unpickles what users wrote.
"""
