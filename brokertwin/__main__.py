"""`python -m brokertwin`, and what `spark-submit` is given: the console script."""

from brokertwin.cli.main import main

if __name__ == "__main__":
    main()
