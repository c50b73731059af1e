"""Every metric family as data, one module per topic; `catalog.all` is the whole list."""
