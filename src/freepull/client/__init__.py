"""The client: campaigns of a running service, for admins, gateways and agents. It needs msgspec and httpx alone."""
