"""The routes under /v1, one file for each kind of visitor or thing."""
