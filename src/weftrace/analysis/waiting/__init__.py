"""Why did the device wait? Each idle stretch is cut at the launch of what ends it, and each part gets one cause."""
