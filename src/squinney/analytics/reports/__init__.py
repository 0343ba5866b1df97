"""Reports for people: visitors, visits, pages, sources, robots and devices of a site, for a range of days."""
