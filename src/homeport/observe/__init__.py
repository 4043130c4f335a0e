"""What happened: journal, metrics, explanations. Folds over the records of the router."""
