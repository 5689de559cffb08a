"""Parts of the site that are made from the code: the reference, the table of methods, commands."""
