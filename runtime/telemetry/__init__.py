"""What the engine reports about itself."""
