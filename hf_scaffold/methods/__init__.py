"""Other ways than Scaffold-BPE to choose a vocabulary: what they take out, and how they encode."""
