"""Text tables as people write them: what is seen in a file, what is kept as spelled, what is refused."""

import numpy as np
import pandas as pd
import pytest

from gpclass.data.text import TextFormat, labels_from, read_text


def read(content, *given, encoding="utf-8", **named):
    return read_text(content.encode(encoding), *given, **named)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", "  "])
def test_separators_are_seen(separator):
    rows = [["x", "y", "kind"], ["1", "2.5", "a"], ["3", "-4", "b"]]
    frame = read("\n".join(separator.join(row) for row in rows))
    pd.testing.assert_frame_equal(frame, pd.DataFrame({"x": [1, 3], "y": [2.5, -4], "kind": ["a", "b"]}))


def test_a_separator_within_quotes_or_in_few_lines_is_none():
    frame = read('x;text\n1;"a, b, c"\n2;d, e\n3;f\n')
    assert list(frame.columns) == ["x", "text"]
    assert frame["text"].tolist() == ["a, b, c", "d, e", "f"]


def test_decimal_commas_and_points_between_thousands():
    frame = read("x;big;n\n1,5;1.234,5;1.000\n-0,25;12;2.500.000\n1e3;0,5;7\n")
    np.testing.assert_array_equal(frame["x"], [1.5, -0.25, 1000])
    np.testing.assert_array_equal(frame["big"], [1234.5, 12, 0.5])
    np.testing.assert_array_equal(frame["n"], [1000, 2500000, 7])


@pytest.mark.parametrize("between", [",", " ", "\u202f", "'"])
def test_thousands(between):
    frame = read(f'x,y\n"1{between}000",0.5\n"12{between}345{between}678.5",1\n999,2\n')
    np.testing.assert_array_equal(frame["x"], [1000, 12345678.5, 999])


def test_each_column_has_one_decimal_sign():
    frame = read("a;b;c\n1,5;1.5;1,5\n2,25;2.25;2.5\n")
    np.testing.assert_array_equal(frame["a"], [1.5, 2.25])
    np.testing.assert_array_equal(frame["b"], [1.5, 2.25])
    assert frame["c"].tolist() == ["1,5", "2.5"]  # which the encoding refuses


def test_what_could_be_read_in_two_ways_is_not_guessed():
    content = "a;b\n1,234;1\n2,345;2\n"
    assert read(content)["a"].tolist() == ["1,234", "2,345"]
    np.testing.assert_array_equal(read(content, TextFormat(decimal=","))["a"], [1.234, 2.345])
    np.testing.assert_array_equal(read(content, TextFormat(decimal="."))["a"], [1234, 2345])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_with_a_mark_are_seen(encoding):
    assert list(read("höhe,ort\n1,Åre\n", encoding=encoding).columns) == ["höhe", "ort"]


def test_other_encodings_are_taken_with_a_word():
    with pytest.warns(UserWarning, match="not in UTF-8: read as cp1252"):
        assert list(read("höhe;ort\n1;a\n", encoding="cp1252").columns) == ["höhe", "ort"]
    assert read("имя,y\n1,2\n", TextFormat(encoding="koi8-r"), encoding="koi8-r").columns[0] == "имя"
    with pytest.raises(ValueError, match="not text in utf-8"):
        read("höhe;ort\n1;a\n", TextFormat(encoding="utf-8"), encoding="cp1252")
    with pytest.raises(ValueError, match="not text in UTF-8"):
        read_text(bytes(range(255, 127, -1)))


def test_missing_values():
    content = "x,word,kind\n1,NA,None\n,a,NA\nnull,,b\n"
    frame = read(content, text=["kind"])
    assert frame["x"].isna().tolist() == [False, True, True]
    assert frame["word"].isna().tolist() == [True, False, True]
    assert frame["kind"].tolist() == ["None", "NA", "b"]  # names of classes
    frame = read(content, TextFormat(missing=["NA"]), text=["kind"])
    assert frame["kind"].isna().tolist() == [False, True, False]
    assert frame["x"].tolist()[2] == "null"  # a word now
    assert read("y\n0\nNA\n1\n", text=["y"])["y"].isna().tolist() == [False, True, False]  # numbers but for it


@pytest.mark.parametrize(
    ("spelled", "labels"),
    [
        (["1", "2"], [1, 2]),
        (["-1", "+1"], [-1, 1]),
        (["0.0", "1.0"], [0.0, 1.0]),
        (["01", "1"], ["01", "1"]),
        (["01", "02"], ["01", "02"]),
        (["1e3", "1000"], ["1e3", "1000"]),
        (["1", "1.0"], ["1", "1.0"]),
        (["None", "NA"], ["None", "NA"]),
        (["TRUE", "FALSE"], [True, False]),
        (["TRUE", "true"], ["TRUE", "true"]),
        (["12345678901234567", "12345678901234568"], [12345678901234567, 12345678901234568]),
    ],
)
def test_labels_stay_apart(spelled, labels):
    found = labels_from(pd.Series(spelled)).tolist()
    assert found == labels
    assert [type(one) for one in found] == [type(one) for one in labels]


def test_whole_labels_with_a_hole_stay_whole():
    assert labels_from(pd.Series(["1", None, "2"])).dropna().tolist() == [1, 2]


def test_an_index_without_a_name_is_no_feature():
    with pytest.warns(UserWarning, match="numbers the rows"):
        assert list(read(",x\n0,5\n1,6\n").columns) == ["x"]
    assert list(read("x,y,\n0,5,\n1,6,\n").columns) == ["x", "y"]  # separators at the ends


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1,2\n3,4\n", "first line holds numbers"),
        ("a,a\n3,4\n", "duplicate column names: a"),
        ("a,,b\n3,4,5\n", "column 2 has no name"),
        ("a,b\n3,4,5\n", "rows have more cells than the first line"),
        ("a,b\n3,4\n3,4,5\n", "more cells than the first line .Expected 2 fields in line 3, saw 3, separator ','"),
        ("\n", "empty"),
    ],
)
def test_what_is_no_table_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        read(content)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"decimal": "x"}, "decimal sign must be"),
        ({"decimal": ",", "separator": ","}, "both the separator"),
        ({"encoding": "utf-9"}, "unknown encoding"),
    ],
)
def test_formats_are_checked(given, message):
    with pytest.raises(ValueError, match=message):
        TextFormat(**given)
