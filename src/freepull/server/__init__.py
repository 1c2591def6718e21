"""The service: live campaigns over HTTP, with tokens, a dashboard, and an SDK.

Nothing is imported here, because the SDK needs none of what the server needs.
"""
