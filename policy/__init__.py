"""policy: the size and shape of every request's draft tree, from calibrated acceptance and measured cost."""
