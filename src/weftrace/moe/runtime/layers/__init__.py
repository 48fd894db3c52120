"""The layers of a profile in torch: attention, gate, experts; their backward in two."""
