"""From a measured trace to the plan that it followed: what each op waited for, as far as the file tells or shows."""
