"""`python -m runyard.cli`, for where the script folder is not on PATH."""

from runyard.cli import main

main()
