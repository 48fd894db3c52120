"""Simulated training jobs whose slowdown and its cause are known, and how often they are told right."""
