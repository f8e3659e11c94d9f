"""The nouns of Runyard and the rules between them. Standard library only; Python 3.8 and newer."""
