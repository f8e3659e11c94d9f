"""What training code touches: the current run and its journal. It sends nothing.

May enter: sdk and azureml; the supervisor uses `injection`, the engine `bundle`.
Loads: in every rank, so only the standard library.
"""
