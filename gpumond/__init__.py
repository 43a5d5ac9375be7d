"""gpumond: how the GPUs of a host are connected, and how fast they really talk."""

__version__ = "0.1.0"
