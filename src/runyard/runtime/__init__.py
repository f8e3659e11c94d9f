"""What training code touches: the current run and its journal. Standard library only; sends nothing."""
