"""The sentences of a report: headline.py puts the others together, the largest loss first."""
