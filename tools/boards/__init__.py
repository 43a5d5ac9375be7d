"""The dashboards of gpumond, a module each."""
