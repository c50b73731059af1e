"""Who owns what: readings joined to pods, containers and jobs, with how we know or why we do not. Pure."""
