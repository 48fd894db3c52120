"""What to do about a run, in order, with the gain computed: rules find, the replay computes, `advise` puts in order."""
