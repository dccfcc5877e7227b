"""Entry point of `python -m brokertwin` and `spark-submit`: runs the console script."""

from brokertwin.cli.main import main

if __name__ == "__main__":
    main()
