"""Texts of SQL that authors and people give, judged before Spark analyses them."""
