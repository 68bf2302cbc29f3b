"""What the page on folds of many classes says: how many have run, and whether their chains had mixed."""

from benchmarks.bayes_folds import FOLDS, PAGE, kept, progress


def test_folds_whose_chains_had_not_mixed_are_counted():
    runs = [{"full Bayes": {"rhat": rhat}} for rhat in (1.005, 1.2, 1.02)]
    assert f"3 of {FOLDS} folds have run; in 2 of them R-hat is above 1.01" in progress("iris", runs)
    assert "not mixed" not in progress("iris", runs[:1])


def test_the_page_says_so_of_the_stored_folds():
    page = PAGE.read_text()
    assert all(progress(name, runs) in page for name, runs in kept().items())
