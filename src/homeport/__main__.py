"""`python -m homeport` is the `homeport` command."""

from homeport.cli.main import main

if __name__ == "__main__":
    main()
