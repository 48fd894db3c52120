"""Where experts live: from expert loads to a placement, with proof of how good it is."""
