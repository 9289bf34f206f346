"""From logits to tokens: what a row asks for, its random numbers, and the draw itself."""
