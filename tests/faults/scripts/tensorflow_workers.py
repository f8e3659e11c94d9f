"""A sum over all workers with TensorFlow's collectives; the parameter server only serves."""

import json
import os

import tensorflow as tf


def start(rank, chosen, fault, argument, mark):
    config = json.loads(os.environ["TF_CONFIG"])
    task = config["task"]
    if fault == "port" and rank == chosen:
        config["cluster"][task["type"]][task["index"]] = f"127.0.0.1:{argument}"
        mark()
    if task["type"] == "ps":
        tf.distribute.Server(config["cluster"], job_name="ps", task_index=task["index"], protocol="grpc").join()
    config["cluster"].pop("ps")
    os.environ["TF_CONFIG"] = json.dumps(config)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def own(value):
        return value * 1.0

    @tf.function
    def total(value):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(own, args=(value,)), axis=None)

    def allreduce(value):
        return float(total(tf.constant(value)))

    return allreduce
