"""Where entries come from: the url_map, decorated functions, and the URLs they mean."""
