"""What `as_plan` puts beside the actions of a schedule: messages on links, copies to the host and back."""
