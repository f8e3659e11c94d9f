"""The container builder: find a container runtime, get the image, write the command that runs ranks inside.

May enter: `environments` finds it by name.
Loads: when a run asks for an image.
"""
