"""Where KV lives: which page holds which prefix (bookkeeping), and the tensors themselves."""
