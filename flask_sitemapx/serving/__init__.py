"""What goes on the wire: from a path to a representation with its validators."""
