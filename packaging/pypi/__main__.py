"""Becomes the program `reseq` of this package: signals and the exit code are its own."""
import os, sys

def main():
    os.execv(os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "reseq"), ["reseq", *sys.argv[1:]])

if __name__ == "__main__":
    main()
