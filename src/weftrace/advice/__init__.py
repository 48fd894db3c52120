"""What decides how long a run takes, and what a change would save: from a measured trace, through its inferred plan."""
