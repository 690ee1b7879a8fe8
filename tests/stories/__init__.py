"""Stories: what a user does, through the public API alone. Read these first; the docs show their code."""
