"""Connectors between streamlvq and the systems that carry readings; they come with the daemon."""
