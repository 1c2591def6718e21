"""The version, which provenance carries too."""

__version__ = "0.1.0"
