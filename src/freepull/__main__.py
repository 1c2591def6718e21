"""`python -m freepull` is the program `freepull`."""

from freepull.cli import main

if __name__ == "__main__":
    main()
