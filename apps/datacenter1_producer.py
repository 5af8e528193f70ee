"""Writes numbered messages to ProductA in data centre 1."""

from producer import main
from running import run

if __name__ == "__main__":
    run(lambda: main("localhost:9093", "ProductA"))
