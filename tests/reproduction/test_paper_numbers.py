"""The file of the paper's numbers is whole."""

from neatrec.reproduction.published import paper_numbers

MODELS = {"pop", "popco", "cf", "bprmf", "item2vec", "triple2vec", "neat", "neat-bpr"}


def test_every_table_has_its_number():
    numbers = paper_numbers()
    tables = [numbers[key]["table"] for key in ("dataset", "label_counts", "departments")]
    tables += [numbers[key]["table"] for key in ("positive_pairs", "negative_pairs", "top20")]
    tables += [part["table"] for data in numbers["metrics"].values() for part in data.values()]
    assert tables == ["III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII", "XIII", "XIV"]


def test_the_metric_tables_are_full():
    for data in ("INS", "WMT"):
        for level in ("0.05", "0.01", "0.001"):
            models = paper_numbers()["metrics"][data][level]["models"]
            assert set(models) == MODELS
            for values in models.values():
                assert list(values["hr"]) == list(values["ndcg"]) == ["1", "3", "5", "10", "20"]
                assert values["hr"]["1"] == values["ndcg"]["1"]
                assert list(values["hr"].values()) == sorted(values["hr"].values())


def test_the_department_table_adds_up():
    rows = paper_numbers()["departments"]["rows"]
    assert len(rows) == 21
    for column in range(4):
        assert abs(sum(row[column] for row in rows.values()) - 100) < 0.02


def test_the_lists_are_whole():
    numbers = paper_numbers()
    assert len(numbers["top20"]["items"]) == len(set(numbers["top20"]["items"])) == 20
    assert len(numbers["positive_pairs"]["rows"]) == len(numbers["negative_pairs"]["rows"]) == 10
    assert [item["purchases"] for item in numbers["case_study"]["items"]] == [35_633, 12_184, 13_776]
