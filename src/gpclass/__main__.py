"""``python -m gpclass`` is the command ``gpclass``."""

from gpclass.cli import main

if __name__ == "__main__":
    main()
