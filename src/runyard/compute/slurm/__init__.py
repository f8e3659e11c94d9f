"""The backend for Slurm: write the batch script, call sbatch, squeue, sacct and scancel, read their answers.

May enter: `compute` finds it by name.
Loads: when a target names a Slurm cluster.
"""
