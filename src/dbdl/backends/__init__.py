"""Where rows live and codes are swept: the verbs, a clear reference, and a fast CPU backend."""
