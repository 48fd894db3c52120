"""What the host's threads did and waited for."""
