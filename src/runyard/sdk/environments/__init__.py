"""`Environment` and its sections: where it comes from, its file, its versions, the plan that a run gets.

May enter: run_config, submit, estimators, workspaces.
Loads: with the first environment.
"""
