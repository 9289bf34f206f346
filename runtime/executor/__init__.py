"""What carries a batch out: the forward pass and the draw of its tokens."""
