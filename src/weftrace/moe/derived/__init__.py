"""What follows from a profile: tokens a second, its phases, who holds it up."""
