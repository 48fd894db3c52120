"""How rows of tokens travel to their experts and back."""
