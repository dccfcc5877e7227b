"""`python -m brokerstream`, and what `spark-submit` is given: the console script."""

from brokerstream.cli.main import main

if __name__ == "__main__":
    main()
