"""The demo data: the harbour town of Saltmere, with its shop, magazine, people, bank and advertisers."""
