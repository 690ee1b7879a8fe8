"""What every report begins with."""

HEAD = "The shop by the bay"
