"""The rules, a file a family: each is a function from `Evidence` of a device, or of a job, to what it found."""
