"""Laws with a pencil: what limits decoding, what five stages cost, what waves hide. Plain numbers in and out."""
