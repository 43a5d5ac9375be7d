"""The status page: HTML rendered on the server from a HostStatus, without JavaScript."""
